//! The CustomResourceDefinitions of the four kinds.
