//! What a cosine means under the store's embedding model.

use std::cell::OnceCell;

use crate::store::vectors::{VectorError, VectorReader};

use super::super::duplicates::background::effective;
use super::super::duplicates::{rounded, sample};

/// The scale of the cosines of a store, measured when it is first needed: on most nights nothing is compared.
pub(super) struct Scale<'a> {
    store: Option<&'a dyn VectorReader>,
    background: OnceCell<f64>,
}

impl<'a> Scale<'a> {
    pub(super) fn of(store: Option<&'a dyn VectorReader>) -> Self {
        Self {
            store,
            background: OnceCell::new(),
        }
    }

    /// The cosine of two random memories; below any other where it cannot be told.
    pub(super) fn background(&self) -> Result<f64, VectorError> {
        if let Some(background) = self.background.get() {
            return Ok(*background);
        }
        let background = match self.store {
            Some(store) => sample::background_of(store)?,
            None => None,
        };
        let background = background.map_or(-1.0, rounded);
        Ok(*self.background.get_or_init(|| background))
    }

    /// The cosine to look for, for one that is meant under a usual model.
    pub(super) fn effective(&self, cosine: f64) -> Result<f64, VectorError> {
        Ok(effective(cosine, self.background()?))
    }
}
