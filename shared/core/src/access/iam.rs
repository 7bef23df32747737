//! AWS principals that call the API with their own credentials.
//!
//! API Gateway and function URLs in IAM mode name the caller by its ARN. A session of a role has an ARN of its own, `arn:aws:sts::111122223333:assumed-role/NAME/SESSION`, in which the role's path is missing; so a role is identified here by
//! its account and its name, which is unique in the account whatever its path (IAM API reference, CreateRole). Users keep
//! their path, which is part of what they call with.

use std::fmt;

/// The longest ARN: AWS's own limit (IAM API reference, `arnType`).
const MAX: usize = 2048;

/// A principal: `arn:…:iam::<account>:user/…`, `arn:…:iam::<account>:role/<name>` for all sessions of a role,
/// `arn:…:iam::<account>:root`, or `arn:…:sts::<account>:federated-user/…`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IamArn(String);

impl IamArn {
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX || !text.bytes().all(|b| b.is_ascii_graphic()) || text.contains('*') {
            return None;
        }
        let (partition, rest) = text.strip_prefix("arn:")?.split_once(':')?;
        let (service, rest) = rest.split_once("::")?;
        let (account, resource) = rest.split_once(':')?;
        let is_partition = partition == "aws" || partition.starts_with("aws-");
        if !is_partition || account.len() != 12 || !account.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (kind, name) = resource.split_once('/').unwrap_or((resource, ""));
        let role = match (service, kind) {
            ("iam", "role") => name.rsplit('/').next()?,
            ("sts", "assumed-role") => match name.split_once('/')? {
                (_, session) if session.is_empty() || session.contains('/') => return None,
                (role, _) => role,
            },
            ("iam", "root") if resource == "root" => return Some(Self(text.to_owned())),
            ("iam", "user") | ("sts", "federated-user") if name.split('/').all(|part| !part.is_empty()) => {
                return Some(Self(text.to_owned()));
            }
            (_, _) => return None,
        };
        (!role.is_empty()).then(|| Self(format!("arn:{partition}:iam::{account}:role/{role}")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IamArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_of_a_role_is_the_role_and_other_principals_keep_their_arn() {
        let role = "iam::111122223333:role/Sender";
        for (text, expected) in [
            (role, role),
            ("iam::111122223333:role/teams/shop/Sender", role),
            ("sts::111122223333:assumed-role/Sender/i-0abc", role),
            ("sts::111122223333:assumed-role/Sender/anna@example.org", role),
            ("sts::444455556666:assumed-role/Sender/i-0abc", "iam::444455556666:role/Sender"),
            ("iam::111122223333:user/anna", "iam::111122223333:user/anna"),
            ("iam::111122223333:user/teams/anna", "iam::111122223333:user/teams/anna"),
            ("iam::111122223333:root", "iam::111122223333:root"),
            ("sts::111122223333:federated-user/anna", "sts::111122223333:federated-user/anna"),
        ] {
            for partition in ["aws", "aws-cn"] {
                let arn = |rest| format!("arn:{partition}:{rest}");
                assert_eq!(IamArn::parse(&arn(text)).expect(text).to_string(), arn(expected));
            }
        }
    }

    #[test]
    fn an_arn_of_no_principal_is_refused() {
        for text in [
            "",
            "anna",
            "arn:aws:iam::111122223333:role/",
            "arn:aws:iam::111122223333:role/*",
            "arn:aws:iam::1111:user/anna",
            "arn:aws:iam::111122223333:user/",
            "arn:aws:iam::111122223333:user",
            "arn:aws:iam::111122223333:group/all",
            "arn:aws:iam::111122223333:root/",
            "arn:aws:sts::111122223333:assumed-role/Sender",
            "arn:aws:sts::111122223333:assumed-role/Sender/",
            "arn:aws:sts::111122223333:assumed-role/Sender/a/b",
            "arn:aws:sts::111122223333:assumed-role//a",
            "arn:aws:s3:::bucket",
            "arn:gcp:iam::111122223333:user/anna",
            "arn:aws:iam::111122223333:user/an na",
            &format!("arn:aws:iam::111122223333:user/{}", "a".repeat(2048)),
        ] {
            assert_eq!(IamArn::parse(text), None, "{text}");
        }
    }
}
