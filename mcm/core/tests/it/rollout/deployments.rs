//! Tables of deployments.
