//! Times a text speaks of: dates, months, weekdays, times of day, years, and days told from today.
//!
//! Policy: two times are comparable when they are of one [`Grain`]. A bare month or an abbreviation that is a word too
//! counts only beside a day or with a capital.

use super::fold::hash32;
use super::lexicon::{Entry, Lexicon};
use super::token::{Case, Ends, Kind, Token};

/// What a time tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Grain {
    /// Day and month.
    Date,
    /// Month alone.
    Month,
    /// Weekday.
    Weekday,
    /// Time of day, in minutes.
    Clock,
    /// Before or after noon.
    HalfDay,
    /// Year.
    Year,
    /// A word of one of the groups of the lexicon.
    Relative(u8),
}

/// A time of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// What it tells.
    pub(crate) grain: Grain,
    /// Which of its grain.
    pub(crate) value: u32,
    /// The index of its first word in the analysis.
    pub(crate) at: u32,
}

impl Moment {
    /// A word told from today or a part of the day.
    pub(crate) fn relative(group: u8, place: u8, at: u32) -> Self {
        Self {
            grain: Grain::Relative(group),
            value: u32::from(place),
            at,
        }
    }
}

fn moment(grain: Grain, value: u32) -> Moment {
    Moment {
        grain,
        value,
        at: 0,
    }
}

/// Reads the time that begins at a token: what it tells, and how many tokens it takes.
pub(crate) fn read(
    lexicon: &'static Lexicon,
    tokens: &[Token],
    at: usize,
) -> Option<(Vec<Moment>, usize)> {
    let reader = Reader { lexicon, tokens };
    reader
        .written(at)
        .or_else(|| reader.day_first(at))
        .or_else(|| reader.month_first(at))
        .or_else(|| reader.clock(at))
        .or_else(|| reader.weekday(at))
        .or_else(|| reader.year(at))
        .or_else(|| reader.relative(at))
}

struct Reader<'a> {
    lexicon: &'static Lexicon,
    tokens: &'a [Token],
}

impl Reader<'_> {
    fn entry(&self, at: usize) -> Option<&'static Entry> {
        let token = self.tokens.get(at)?;
        (token.kind == Kind::Word)
            .then(|| self.lexicon.get(&token.fold))
            .flatten()
    }

    fn ends(&self, at: usize) -> Ends {
        self.tokens
            .get(at)
            .map_or(Ends::Sentence, |token| token.ends)
    }

    /// The whole number at a token, with the letters behind it.
    fn whole(&self, at: usize) -> Option<(u32, &str)> {
        match &self.tokens.get(at)?.kind {
            Kind::Numeral(numeral) if numeral.prefix.is_empty() => {
                Some((numeral.digits.parse().ok()?, numeral.suffix.as_str()))
            }
            _ => None,
        }
    }

    fn day(&self, at: usize) -> Option<u32> {
        let (day, suffix) = self.whole(at)?;
        let is_plain = suffix.is_empty()
            || self
                .lexicon
                .ordinal_suffixes
                .iter()
                .any(|known| known == suffix);
        (is_plain && (1..=31).contains(&day)).then_some(day)
    }

    /// A month, where nothing else can be meant: `beside_day` says that a day stands next to it.
    fn month(&self, at: usize, beside_day: bool) -> Option<u32> {
        let entry = self.entry(at)?;
        let month = entry.month?;
        let token = &self.tokens[at];
        let is_capital = token.case == Case::Title && !token.begins && token.fold.len() > 3
            || token.case == Case::Title && beside_day;
        (beside_day || !entry.is_doubtful_time || (is_capital && token.fold.len() >= 3))
            .then_some(u32::from(month))
    }

    fn is_of(&self, at: usize) -> bool {
        let is_of = |token: &Token| matches!(token.fold.as_str(), "of" | "de" | "do" | "del");
        self.tokens.get(at).is_some_and(is_of)
    }

    /// `2024-03-15`, `15/10/2024`, `15.10.2024`.
    fn written(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let token = self.tokens.get(at)?;
        if token.kind != Kind::Code {
            return None;
        }
        let text = token.fold.split('t').next()?;
        let parts: Vec<u32> = text
            .split(['-', '/', '.'])
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let &[first, second, third] = parts.as_slice() else {
            return None;
        };
        let (year, month, day) = if first > 31 {
            (first, second, third)
        } else if self.lexicon.decimal == '.' && (second > 12 || first <= 12) {
            (third, first, second)
        } else {
            (third, second, first)
        };
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && year < 3000;
        let year = if year < 100 { year + 2000 } else { year };
        is_date.then(|| {
            let moments = vec![
                moment(Grain::Date, month * 100 + day),
                moment(Grain::Year, year),
            ];
            (moments, 1)
        })
    }

    /// `15 October`, `15 de outubro de 2024`.
    fn day_first(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let day = self.day(at)?;
        if self.ends(at) != Ends::Nothing {
            return None;
        }
        let of = usize::from(self.is_of(at + 1));
        let month = self.month(at + 1 + of, true)?;
        Some(self.with_year(month * 100 + day, at, 2 + of))
    }

    /// `October 15, 2024`, `Oct 15th`, `October`.
    fn month_first(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let day = (self.ends(at) == Ends::Nothing)
            .then(|| self.day(at + 1))
            .flatten();
        if let Some(day) = day
            && let Some(month) = self.month(at, true)
        {
            return Some(self.with_year(month * 100 + day, at, 2));
        }
        let month = self.month(at, false)?;
        Some((vec![moment(Grain::Month, month)], 1))
    }

    fn with_year(&self, date: u32, at: usize, used: usize) -> (Vec<Moment>, usize) {
        let mut moments = vec![moment(Grain::Date, date)];
        let of = usize::from(self.is_of(at + used));
        let year = self
            .whole(at + used + of)
            .filter(|(year, suffix)| suffix.is_empty() && (1900..2100).contains(year));
        match year {
            Some((year, _)) if self.ends(at + used - 1) <= Ends::Item => {
                moments.push(moment(Grain::Year, year));
                (moments, used + of + 1)
            }
            _ => (moments, used),
        }
    }

    /// `11:30`, `3pm`, `3 PM`, `15h30`, `15 horas` after a word for `at`.
    fn clock(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let Kind::Numeral(numeral) = &self.tokens.get(at)?.kind else {
            return None;
        };
        let hour: u32 = numeral.digits.parse().ok().filter(|hour| *hour <= 24)?;
        let suffix = numeral.suffix.as_str();
        let half_behind = self.entry(at + 1).and_then(|entry| entry.half_day);
        let half_of = |text: &str| match text {
            "am" | "a" => Some(0),
            "pm" | "p" => Some(1),
            _ => None,
        };
        let (minute, half, used) = match suffix {
            "" => match half_behind {
                Some(half) => (0, Some(half), 2),
                None => return self.oclock(at, hour),
            },
            "am" | "pm" => (0, half_of(suffix), 1),
            "h" | "hs" if self.lexicon.decimal == ',' => (0, None, 1),
            _ => {
                let rest = suffix
                    .strip_prefix(':')
                    .or_else(|| suffix.strip_prefix('h'))?;
                let digits = rest.trim_end_matches(|c: char| c.is_alphabetic());
                let minute: u32 = digits
                    .parse()
                    .ok()
                    .filter(|minute| *minute < 60 && digits.len() == 2)?;
                let half = half_of(&rest[digits.len()..]);
                let behind = half.is_none() && half_behind.is_some();
                (minute, half.or(half_behind), 1 + usize::from(behind))
            }
        };
        let hour = match half {
            Some(0) if hour == 12 => 0,
            Some(1) if hour < 12 => hour + 12,
            _ => hour,
        };
        Some((vec![moment(Grain::Clock, hour * 60 + minute)], used))
    }

    /// `10 o'clock`, `as 15 horas`.
    fn oclock(&self, at: usize, hour: u32) -> Option<(Vec<Moment>, usize)> {
        let is_mark = self.entry(at + 1).is_some_and(|entry| entry.is_hour_mark);
        let is_at = at
            .checked_sub(1)
            .is_some_and(|before| matches!(self.tokens[before].fold.as_str(), "as" | "las"));
        let english = self.lexicon.decimal == '.';
        let used = if is_mark { 2 } else { 1 };
        ((is_mark && english) || is_at).then(|| (vec![moment(Grain::Clock, hour * 60)], used))
    }

    fn weekday(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let token = self.tokens.get(at)?;
        let behind = self.tokens.get(at + 1).filter(|next| next.fold == "feira");
        let joined = behind.map(|_| format!("{}-feira", token.fold));
        let singular = token.fold.strip_suffix('s').unwrap_or(&token.fold);
        let entry = match &joined {
            Some(joined) => self.lexicon.get(joined),
            None => self
                .entry(at)
                .filter(|entry| entry.weekday.is_some())
                .or_else(|| self.lexicon.get(singular)),
        };
        let entry = entry?;
        let day = entry.weekday?;
        let is_sure = !entry.is_doubtful_time || token.case == Case::Title && !token.begins;
        (is_sure && token.kind == Kind::Word).then(|| {
            (
                vec![moment(Grain::Weekday, u32::from(day))],
                1 + usize::from(joined.is_some()),
            )
        })
    }

    /// A year: four bare digits with nothing countable behind them.
    fn year(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let (year, suffix) = self.whole(at)?;
        let is_year =
            suffix.is_empty() && (1900..2100).contains(&year) && self.tokens[at].fold.len() == 4;
        let before = at.checked_sub(1);
        let is_led = before.is_some_and(|before| {
            let entry = self.entry(before);
            matches!(
                self.tokens[before].fold.as_str(),
                "in" | "since"
                    | "until"
                    | "till"
                    | "by"
                    | "of"
                    | "from"
                    | "before"
                    | "after"
                    | "em"
                    | "desde"
                    | "de"
                    | "en"
                    | "ate"
                    | "hasta"
                    | "year"
                    | "ano"
            ) || entry.is_some_and(|entry| entry.month.is_some() || entry.relative.is_some())
        });
        let is_identifier = before
            .and_then(|before| self.entry(before))
            .is_some_and(|entry| entry.is_identifier_word);
        let is_last = self.ends(at) > Ends::Nothing || at + 1 == self.tokens.len();
        (is_year && !is_identifier && (is_led || is_last))
            .then(|| (vec![moment(Grain::Year, year)], 1))
    }

    fn relative(&self, at: usize) -> Option<(Vec<Moment>, usize)> {
        let entry = self.entry(at)?;
        if let Some(half) = entry.half_day {
            return Some((vec![moment(Grain::HalfDay, u32::from(half))], 1))
                .filter(|_| self.lexicon.decimal == '.' && self.tokens[at].case != Case::Lower);
        }
        let (group, place) = entry.relative?;
        Some((vec![Moment::relative(group, place, 0)], 1))
    }
}

/// The key of a time, for a set of them.
pub(crate) fn key(moment: &Moment) -> u32 {
    hash32(&format!("{:?} {}", moment.grain, moment.value))
}

#[cfg(test)]
mod tests {
    use super::super::analysis::Analysis;
    use super::*;

    fn told(text: &str) -> Vec<(Grain, u32)> {
        let analysis = Analysis::of(text);
        let moments = analysis.moments.iter();
        moments.map(|moment| (moment.grain, moment.value)).collect()
    }

    #[test]
    fn times_are_read_in_each_language() {
        use Grain::{Clock, Date, Month, Weekday, Year};
        for (text, expected) in [
            ("the review is on 15 October", vec![(Date, 1015)]),
            (
                "due on October 15th, 2024",
                vec![(Date, 1015), (Year, 2024)],
            ),
            ("due by 2024-10-15", vec![(Date, 1015), (Year, 2024)]),
            (
                "a reuniao e no dia 15 de outubro de 2024",
                vec![(Date, 1015), (Year, 2024)],
            ),
            ("o prazo e 15/10/2024", vec![(Date, 1015), (Year, 2024)]),
            ("it ended on 12/31/2023", vec![(Date, 1231), (Year, 2023)]),
            ("la cita es el 3 de enero", vec![(Date, 103)]),
            ("they met in March", vec![(Month, 3)]),
            ("they march on", vec![]),
            ("she may come", vec![]),
            ("every Tuesday at 3 PM", vec![(Weekday, 1), (Clock, 900)]),
            (
                "na segunda-feira as 15h30",
                vec![(Weekday, 0), (Clock, 930)],
            ),
            ("at 11:30 and 12am", vec![(Clock, 690), (Clock, 0)]),
            ("she moved in 2023", vec![(Year, 2023)]),
            ("there are 2023 calls", vec![]),
            ("error 2000", vec![]),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn days_told_from_today_are_of_one_group() {
        let (one, other) = (told("see you tomorrow"), told("see you today"));
        assert_eq!(one[0].0, other[0].0);
        assert_ne!(one[0].1, other[0].1);
        assert_eq!(told("it was last week").len(), 1);
    }
}
