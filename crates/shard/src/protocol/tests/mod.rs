mod agreement;
mod api_server;
mod checks;
mod clock;
mod contract;
mod faults;
mod machine;
mod model;
#[cfg(feature = "mutants")]
mod mutants;
mod store;
mod takeover;
mod world;
