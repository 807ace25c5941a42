//! The three Bots of the demonstration and what they said before anybody looked.

use super::world::World;

/// Fills an empty world.
pub(super) fn fill(_world: &mut World) {}
