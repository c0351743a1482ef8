//! Texts for failed calls of the control API.

use tonic::{Code, Status};

/// Describes the error of a call to the control API at `address`, in one line. The driver API has another address, and
/// with TLS another client authority, so errors of a call to the wrong one name the flags of the control API.
pub fn describe_error(address: &str, status: &Status) -> String {
    let message = status.message();
    match status.code() {
        Code::Unimplemented => format!(
            "{address} does not serve the control API of this version: use the address of `fakecloud serve --control-address`, \
             not that of the driver API"
        ),
        Code::Unavailable | Code::DeadlineExceeded if address.starts_with("grpcs://") => format!(
            "fakecloud does not answer at {address}: {message}; the address must be that of `fakecloud serve \
             --control-address`, and the client certificate one of its --tls-control-ca, not those of the driver API"
        ),
        Code::Unavailable | Code::DeadlineExceeded => {
            format!(
                "fakecloud does not answer at {address}: {message}; start it with `fakecloud serve`, go to the folder of a `drydock up`, or give another address \
                 by --cloud"
            )
        }
        // The answer of a TLS server to an unencrypted call is not HTTP/2.
        Code::Internal | Code::Unknown if message.contains("h2 protocol error") => format!(
            "{address} does not speak unencrypted gRPC ({message}): use the control address, with grpcs:// and \
             certificates if `fakecloud serve` has --tls-control-ca"
        ),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::driver_address("grpc://h:1", Status::unimplemented(""), "--control-address")]
    #[case::driver_certificate("grpcs://h:1", Status::unavailable("rejected (UnknownCA)"), "--tls-control-ca")]
    #[case::not_started("grpc://h:1", Status::unavailable("refused"), "start it with `fakecloud serve`")]
    #[case::encrypted("grpc://h:1", Status::internal("h2 protocol error: http2 error"), "grpcs://")]
    #[case::other("grpc://h:1", Status::not_found("there is no VM x"), "there is no VM x")]
    fn the_error_of_a_call_to_the_wrong_address_names_the_control_address(
        #[case] address: &str,
        #[case] status: Status,
        #[case] expected: &str,
    ) {
        let text = describe_error(address, &status);
        assert!(text.contains(expected) && !text.contains('\n'), "{text}");
        assert!(text.contains(address) || status.code() == Code::NotFound, "{text}");
    }
}
