//! Reviews of identities and permissions, and bindings of pods. The HTTP front end answers them without storing them.

use super::builder::ResourceBuilder;
use crate::resource::Resource;

pub(super) fn resources() -> Vec<Resource> {
    let review = |version: &str, kind: &str, plural: &str, name| {
        ResourceBuilder::new(version, kind, plural, name)
            .cluster()
            .review()
            .build()
    };
    vec![
        review(
            "authentication.k8s.io/v1",
            "TokenReview",
            "tokenreviews",
            "io.k8s.api.authentication.v1.TokenReview",
        ),
        review(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            "subjectaccessreviews",
            "io.k8s.api.authorization.v1.SubjectAccessReview",
        ),
        review(
            "authorization.k8s.io/v1",
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        ),
        ResourceBuilder::new(
            "authorization.k8s.io/v1",
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
            "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        )
        .review()
        .build(),
        ResourceBuilder::new("v1", "Binding", "bindings", "io.k8s.api.core.v1.Binding")
            .review()
            .build(),
        review(
            "authentication.k8s.io/v1",
            "SelfSubjectReview",
            "selfsubjectreviews",
            "io.k8s.api.authentication.v1.SelfSubjectReview",
        ),
        review(
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        ),
    ]
}
