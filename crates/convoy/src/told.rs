//! Errors as people are told of them.

/// An error and what it came of, in one line. Of an answer that refuses, what the server says: the error itself prints the
/// whole object.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut texts = Vec::new();
    for cause in error.chain() {
        match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) if !status.message.is_empty() => {
                texts.push(status.message.clone());
                break;
            }
            _ => texts.push(cause.to_string()),
        }
    }
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_a_server_refuses_is_told_in_its_own_words_alone() {
        let refused = kube::Error::Api(Status::failure("releases \"web\" not found", "NotFound").boxed());
        let error = Err::<(), _>(refused).context("asking for the diff of the Release team/web").unwrap_err();
        assert_eq!(told(&error), "asking for the diff of the Release team/web: releases \"web\" not found");
        let error = anyhow::anyhow!("the disk is full").context("writing");
        assert_eq!(told(&error), "writing: the disk is full");
    }
}
