//! `hypnos presets`.

use serde::Serialize;

use crate::config::presets::{ALL, Preset, find};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Out;

/// Lists the presets, or prints one.
pub(super) fn presets(name: Option<&str>, out: &mut Out) -> Result<Exit, Failure> {
    match name {
        None => ALL.iter().for_each(|preset| list(preset, out)),
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

fn list(preset: &Preset, out: &mut Out) {
    if out.json {
        print(preset, out);
    } else {
        out.line(&format!("{:<12} {}", preset.name, preset.description));
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
