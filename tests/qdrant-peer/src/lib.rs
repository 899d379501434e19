//! A gRPC server on loopback in front of the real Qdrant engine.
