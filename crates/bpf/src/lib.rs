//! bpf
pub mod image;
