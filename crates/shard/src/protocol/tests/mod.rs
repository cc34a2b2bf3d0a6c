mod agreement;
mod checks;
mod clock;
mod contract;
mod faults;
mod store;
mod takeover;
mod world;
