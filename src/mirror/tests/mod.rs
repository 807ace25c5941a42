//! The rules of delivery, each with a test named after it, and random histories against a plain model of the service.

mod activity;
mod bed;
mod bodies;
mod deletes;
mod edits;
mod generations;
mod model;
mod order;
mod reads;
mod render;
mod restart;
