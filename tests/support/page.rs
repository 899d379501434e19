//! A page of metrics as a test reads it.

use std::collections::BTreeMap;
use std::path::Path;

/// The samples of a page: the series as it is written, and its value.
pub struct Page(BTreeMap<String, String>);

impl Page {
    /// Reads a page; a series that is there twice is an error.
    pub fn read(text: &str) -> Self {
        let mut samples = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            let doubled = samples.insert(series.to_owned(), value.to_owned());
            assert_eq!(doubled, None, "{series} is there twice");
        }
        Self(samples)
    }

    pub fn of_file(path: &Path) -> Self {
        Self::read(&std::fs::read_to_string(path).expect("page"))
    }

    /// The value of a series; its labels are given in the order of the page.
    #[track_caller]
    pub fn get(&self, series: &str) -> &str {
        let found = self.0.get(series);
        found.unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    #[track_caller]
    pub fn number(&self, series: &str) -> f64 {
        self.get(series).parse().expect("a number")
    }

    /// The names and values of every label.
    pub fn labels(&self) -> Vec<(String, String)> {
        let series = self.0.keys().filter_map(|series| series.split_once('{'));
        let pairs = series.flat_map(|(_, labels)| labels.trim_end_matches('}').split("\","));
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("{pair:?}"));
                (name.to_owned(), value.trim_end_matches('"').to_owned())
            })
            .collect()
    }

    /// The series whose name ends in `_total`.
    pub fn totals(&self) -> BTreeMap<&str, f64> {
        let is_total = |(series, _): &(&String, &String)| {
            series
                .split('{')
                .next()
                .is_some_and(|name| name.ends_with("_total"))
        };
        let totals = self.0.iter().filter(is_total);
        totals
            .map(|(series, value)| (series.as_str(), value.parse().expect("a number")))
            .collect()
    }
}
