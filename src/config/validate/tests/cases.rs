//! Checks as data: each case has one problem, and one line that says so.

use super::*;

/// The cases of a data file, each a list of columns; empty lines and comments are left out.
fn cases(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split('|').map(str::trim).collect())
}

fn has_one_problem(text: &str, expected: &str) {
    let lines = lines(text);
    assert!(
        lines.len() == 1 && lines[0].starts_with(expected),
        "expected one line that starts with\n  {expected}\nbut got\n  {}\nfor\n{text}",
        lines.join("\n  ")
    );
}

#[test]
fn values_out_of_range_are_refused() {
    for case in cases(include_str!("../../testdata/out_of_range.txt")) {
        let [field, values, allowed] = case[..] else {
            panic!("{case:?}")
        };
        let (section, key) = field.rsplit_once('.').unwrap();
        for value in values.split("  ") {
            let text = format!("[{section}]\n{key} = {value}\n{PLAIN}");
            let toml: toml::Table = format!("x = {value}").parse().unwrap();
            let shown = crate::config::problem::shown(&toml["x"]);
            has_one_problem(&text, &format!("{field} = {shown}: allowed is {allowed}"));
        }
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for case in cases(include_str!("../../testdata/one_problem.txt")) {
        let [base, more, expected] = case[..] else {
            panic!("{case:?}")
        };
        let more = more.replace(" & ", "\n");
        let text = match base {
            "empty" => more,
            "top" => format!("{more}\n{PLAIN}"),
            "plain" => with(PLAIN, &more),
            "tenant" => with(PLAIN, &format!("tenant = 'user_id'\n{more}")),
            "tenants" => with(TENANTS, &more),
            "qdrant" => with(QDRANT, &more),
            "sqlite" => with(PLAIN, &format!("[store.vectors]\nkind = 'sqlite'\n{more}")),
            other => panic!("no base {other:?}"),
        };
        has_one_problem(&text, expected);
    }
}

#[test]
fn what_fits_is_accepted() {
    for top in [
        "[pass.duplicates]\ncluster_at = 0.9\nmerge_at = 0.9",
        "[pass.duplicates]\ncluster_at = -1\nmerge_at = 1",
        "[pass.snapshot]\nkeep_daily = 0\nkeep_weekly = 0\nkeep_monthly = 1",
        "[pass.contradictions]\nthreshold = 115",
        "[pass.decay]\nscale = {}\nexempt_types = []\nshape = 2",
        "[pass.vacuum]\nmin_free_bytes = 0\nmin_free_fraction = 0",
        "[pass.ttl]\nsuperseded_retention = '0s'",
        "[guard]\nmax_fraction = 1\nmin_count = 0",
        "[schedule]\ntimezone = 'America/Sao_Paulo'\ncron = '30 2 * * MON-FRI'",
        "[metrics]\nlisten = '[::1]:9750'\ntextfile = 'h.prom'",
        "state_dir = '/srv/hypnos'\nsnapshot_dir = '/srv/hypnos-pairs'",
    ] {
        valid(&format!("{top}\n{PLAIN}"));
    }
    valid(&with(QDRANT, "url = 'http://10.0.0.7:6334'"));
}

#[test]
fn names_are_fit_for_folders_and_labels() {
    let named = |name: &str| format!("[[store]]\nname = {name}\nrows.path = 'm.db'\n");
    let longest = "x".repeat(64);
    for good in ["a", "0-a_b", &longest] {
        assert_eq!(only_store(&named(&format!("'{good}'"))).name, good);
    }
    let too_long = format!("'{longest}x'");
    for bad in [
        "''", "'A'", "'a b'", "'../x'", "'-a'", "'_a'", "'ação'", "'a.b'", "'a/b'", "7", &too_long,
    ] {
        let lines = lines(&named(bad));
        assert_eq!(lines.len(), 1, "{bad}: {lines:?}");
        assert!(lines[0].contains(".name = "), "{lines:?}");
    }
}

#[test]
fn paths_have_one_tenant_at_most() {
    for bad in [
        "",
        "{user}.db",
        "{tenant}/{tenant}.db",
        "{tenant.db",
        "{id}.db",
        "a}b.db",
    ] {
        let text = PLAIN.replace("m.db", bad);
        has_one_problem(
            &text,
            &format!("store.a.rows.path = {bad:?}: allowed is a path"),
        );
    }
    // The folder of the file must not turn one path into many.
    let folder = parse(
        PLAIN,
        Path::new("/etc/{tenant}/hypnos.toml"),
        &Env::default(),
    );
    assert_eq!(problems(folder)[0].field, "store.a.rows.path");
}
