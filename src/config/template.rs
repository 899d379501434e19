//! Templates: text with `{namespace}`, `{tenant}` and `{id}` in it.

/// The placeholders of a template, in order and without their braces; `None` when a brace has no partner, or stands
/// around something that no template knows.
pub(super) fn placeholders(template: &str) -> Option<Vec<&'static str>> {
    let mut found = Vec::new();
    let mut rest = template;
    while let Some(brace) = rest.find(['{', '}']) {
        let (name, after) = rest[brace..].strip_prefix('{')?.split_once('}')?;
        found.push(
            ["namespace", "tenant", "id"]
                .into_iter()
                .find(|known| *known == name)?,
        );
        rest = after;
    }
    Some(found)
}

/// The scope of a namespace template, when it is of the form `scope:owner` and its only placeholder is `{tenant}`,
/// which stands in the owner: exactly once where there are tenants, not at all where there are none. Where the tenants
/// say the scope themselves the template is `{tenant}` alone, and its scope is empty.
pub(super) fn scope_of(namespace: &str, has_tenants: bool) -> Option<&str> {
    if has_tenants && namespace == "{tenant}" {
        return Some("");
    }
    let (scope, owner) = namespace.split_once(':')?;
    let is_plain = !scope.is_empty() && !owner.is_empty() && !namespace.contains(char::is_control);
    let expected: &[&str] = if has_tenants { &["tenant"] } else { &[] };
    let fits = placeholders(scope)?.is_empty() && placeholders(owner)? == expected;
    (is_plain && fits).then_some(scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known_names_in_balanced_braces() {
        assert_eq!(placeholders("plain"), Some(vec![]));
        assert_eq!(
            placeholders("{namespace}::{id}/{tenant}{id}"),
            Some(vec!["namespace", "id", "tenant", "id"])
        );
        for bad in [
            "{", "}", "{id", "id}", "{}", "{ id }", "{ID}", "{user}", "{{id}}", "}{", "{id}}",
        ] {
            assert_eq!(placeholders(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_namespace_names_its_scope_and_its_tenant_once() {
        for (template, tenants, scope) in [
            ("user:{tenant}", true, Some("user")),
            ("user:mail:{tenant}@example.org", true, Some("user")),
            ("world:public", false, Some("world")),
            ("user:fixed", true, None),
            ("user:{tenant}", false, None),
            ("user:{tenant}{tenant}", true, None),
            ("user:{id}", true, None),
            ("user:{namespace}", false, None),
            ("{tenant}", true, Some("")),
            ("{tenant}", false, None),
            ("{tenant}:x", true, None),
            (":{tenant}", true, None),
            ("user:", false, None),
            ("user", false, None),
            ("", false, None),
            ("user:{tenant", true, None),
            ("user:a\nb", false, None),
        ] {
            assert_eq!(scope_of(template, tenants), scope, "{template} {tenants}");
        }
    }
}
