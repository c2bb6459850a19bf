//! windtunnel
