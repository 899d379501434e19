//! `hypnos presets`.

use serde::Serialize;

use crate::config::presets::{ALL, Preset, find};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Out;
use crate::output::words::columns;

/// Lists the presets, or prints one.
pub(super) fn presets(name: Option<&str>, out: &mut Out) -> Result<Exit, Failure> {
    match name {
        None if out.json => ALL.iter().for_each(|preset| print(preset, out)),
        None => list(out),
        Some(name) => {
            let preset = find(name).ok_or_else(|| {
                let known: Vec<&str> = ALL.iter().map(|preset| preset.name).collect();
                Failure::new(Exit::Usage, format!("no preset named {name:?}"))
                    .with_hint(format!("the presets are {}", known.join(", ")))
            })?;
            print(preset, out);
        }
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct PresetLine<'a> {
    name: &'a str,
    description: &'a str,
    toml: &'a str,
}

fn list(out: &mut Out) {
    let cells = |preset: &Preset| {
        [preset.name, preset.description]
            .map(str::to_owned)
            .to_vec()
    };
    let rows: Vec<_> = ALL.iter().map(cells).collect();
    for line in columns(&rows) {
        out.line(&line);
    }
}

fn print(preset: &Preset, out: &mut Out) {
    if out.json {
        let Preset {
            name,
            description,
            toml,
            ..
        } = preset;
        out.object(
            "preset",
            &PresetLine {
                name,
                description,
                toml,
            },
        );
    } else {
        out.lines(preset.toml.trim_end());
    }
}
