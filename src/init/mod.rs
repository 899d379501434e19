//! Recognising a store that is there, and configuring it.
//!
//! Mechanics: [`shape`] reads what a database holds, [`recognise`] lays the fingerprints of the presets over it.
//!
//! Policy: nothing is written but the configuration. A store that hypnos knows and must not touch is refused with the
//! reason.

pub mod recognise;
pub mod shape;
