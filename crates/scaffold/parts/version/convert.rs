
/// Makes the stored version of this one.
///
/// # Errors
/// If the stored version cannot express the object.
pub fn up(old: StaticSite) -> Result<types::StaticSite, String> {
    same_fields(&old)
}

/// Makes this version of the stored one.
///
/// # Errors
/// If this version cannot express the object.
pub fn down(stored: types::StaticSite) -> Result<StaticSite, String> {
    same_fields(&stored)
}
