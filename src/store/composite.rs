//! Keys of several columns, written as one JSON array.

/// An expression for the values of quoted columns as a JSON array; NULL where one is neither text nor an integer.
pub(in crate::store) fn array(columns: &[String]) -> String {
    let plain: Vec<String> = columns
        .iter()
        .map(|column| format!("typeof({column}) IN ('text', 'integer')"))
        .collect();
    format!(
        "CASE WHEN {} THEN json_array({}) END",
        plain.join(" AND "),
        columns.join(", ")
    )
}

/// A condition that quoted columns have the values of the JSON array in a parameter, which an index answers.
pub(in crate::store) fn is_array(columns: &[String], parameter: usize) -> String {
    let each = columns.iter().enumerate().map(|(index, column)| {
        format!(
            "{column} = CASE WHEN json_valid(?{parameter}) THEN json_extract(?{parameter}, '$[{index}]') END"
        )
    });
    each.collect::<Vec<_>>().join(" AND ")
}
