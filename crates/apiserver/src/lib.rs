//! A Kubernetes API server as a library: TLS, filters, negotiation, discovery, handlers, watches.
//!
//! convoy's own API server, `convoy standalone` and the sandbox are all made of it. A
//! [`ServerBuilder`] takes a handler, users (an [`authentication::Authenticator`]) and permissions
//! (an [`authorization::Authorizer`]) and becomes a running [`Server`].

pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod background;
pub mod call;
pub mod decode;
pub mod delegated;
pub mod discovery;
pub mod filters;
pub mod handlers;
pub mod health;
mod impersonation;
pub mod kinds;
pub mod metrics;
pub mod negotiation;
pub mod openapi;
pub mod pki;
pub mod protobuf;
pub mod rbac;
pub mod request_info;
pub mod response;
pub mod server;
pub mod service_account_tokens;
pub mod tls;
pub mod user;

pub use call::Call;
pub use filters::{Handler, Limits, Now};
pub use handlers::{Api, Connect, Documents, Version};
pub use response::Response;
pub use server::{Server, ServerBuilder, StartError};
pub use user::User;
