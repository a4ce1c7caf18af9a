//! Documents as wholes: what they come to, however they are cut and in whichever order their fragments come.

mod dice;
mod fetcher;
mod mistakes;
mod note;
mod random;
