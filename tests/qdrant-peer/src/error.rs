//! Errors in the words and codes of the server.
//!
//! The server maps every engine error to one of a few classes, and each class to a gRPC code and a prefix. The peer
//! answers with the same text, so that a client which reads messages meets what it will meet in production.

use qdrant_edge::OperationError;
use tonic::{Code, Status};

/// What a handler returns.
pub(crate) type Answer<T> = Result<T, Status>;

/// The request contradicts the collection: its vectors, its indexes, its types.
pub(crate) fn wrong_input(description: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("Wrong input: {description}"))
}

/// The request is refused as it stands, by strict mode for one.
pub(crate) fn bad_request(description: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("Bad request: {description}"))
}

/// A field of the message is out of its range.
pub(crate) fn invalid_field(field: &str, problem: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("Validation error in body: [{field}: {problem}]"))
}

/// The collection does not exist.
pub(crate) fn no_collection(name: &str) -> Status {
    Status::not_found(format!("Not found: Collection `{name}` doesn't exist!"))
}

/// The name of a new collection is taken.
pub(crate) fn collection_exists(name: &str) -> Status {
    Status::already_exists(format!("Wrong input: Collection `{name}` already exists!"))
}

/// The server itself failed.
pub(crate) fn internal(description: impl std::fmt::Display) -> Status {
    Status::internal(format!("Service internal error: {description}"))
}

/// The server can do this and the peer cannot.
pub(crate) fn unsupported(what: impl std::fmt::Display) -> Status {
    Status::unimplemented(format!("qdrant-peer does not implement {what}"))
}

/// An engine error as the server reports it.
#[expect(
    clippy::needless_pass_by_value,
    reason = "used as `map_err(from_engine)`"
)]
pub(crate) fn from_engine(error: OperationError) -> Status {
    match &error {
        OperationError::WrongSparse => {
            wrong_input("Conversion between sparse and regular vectors failed")
        }
        OperationError::WrongMulti => {
            wrong_input("Conversion between multi and regular vectors failed")
        }
        OperationError::WrongVectorDimension { .. }
        | OperationError::VectorNameNotExists { .. }
        | OperationError::TypeError { .. }
        | OperationError::TypeInferenceError { .. }
        | OperationError::ValidationError { .. }
        | OperationError::MissingRangeIndexForOrderBy { .. }
        | OperationError::MissingMapIndexForFacet { .. }
        | OperationError::VariableTypeError { .. }
        | OperationError::NonFiniteNumber { .. } => wrong_input(&error),
        OperationError::PointIdError { .. } => Status::not_found(format!("Not found: {error}")),
        OperationError::Timeout { .. } => {
            Status::new(Code::DeadlineExceeded, format!("Timeout: {error}"))
        }
        OperationError::ServiceError { description, .. } => internal(description),
        OperationError::Cancelled { .. }
        | OperationError::InconsistentStorage { .. }
        | OperationError::OutOfMemory { .. } => internal(&error),
    }
}
