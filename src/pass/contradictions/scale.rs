//! What a cosine means under the store's embedding model.

use crate::store::vectors::VectorError;
use crate::view::View;

use super::super::duplicates::background::effective;
use super::super::duplicates::{rounded, sample};

/// The scale of the cosines of a store, measured when it is first needed: on most nights nothing is compared.
pub(super) struct Scale<'a> {
    view: &'a View<'a>,
}

impl<'a> Scale<'a> {
    pub(super) fn of(view: &'a View<'a>) -> Self {
        Self { view }
    }

    /// The cosine of two random memories; below any other where it cannot be told.
    pub(super) fn background(&self) -> Result<f64, VectorError> {
        let background = self.view.background(sample::background_of)?;
        Ok(background.map_or(-1.0, rounded))
    }

    /// The cosine to look for, for one that is meant under a usual model.
    pub(super) fn effective(&self, cosine: f64) -> Result<f64, VectorError> {
        Ok(effective(cosine, self.background()?))
    }
}
