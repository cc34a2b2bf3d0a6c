mod checks;
mod clock;
mod contract;
mod store;
mod world;
