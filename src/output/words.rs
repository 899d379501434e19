//! Numbers with their nouns, and columns that stand below each other.

use unicode_width::UnicodeWidthStr as _;

/// `1 entry`, `2 entries`.
#[must_use]
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The rows as lines: each column as wide as its widest cell, the last one as it is.
#[must_use]
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        for (count, told) in [(0, "0 entries"), (1, "1 entry"), (2, "2 entries")] {
            assert_eq!(counted(count, "entry", "entries"), told);
        }
    }

    #[test]
    fn columns_stand_below_each_other_whatever_is_in_them() {
        let rows = |rows: &[&[&str]]| -> Vec<Vec<String>> {
            let row = |row: &&[&str]| row.iter().map(ToString::to_string).collect();
            rows.iter().map(row).collect()
        };
        assert_eq!(columns(&[]), [""; 0]);
        assert_eq!(
            columns(&rows(&[
                &["ttl", "idle"],
                &["contradictions", "applied", "3 queue"],
                &["日本", ""],
                &[],
            ])),
            [
                "ttl             idle",
                "contradictions  applied  3 queue",
                "日本",
                "",
            ]
        );
        assert_eq!(
            columns(&rows(&[&["日本", "x"], &["abc", "y"]])),
            ["日本  x", "abc   y"]
        );
    }
}
