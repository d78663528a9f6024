/**
 * Limit of one record as the source writes it. A record is processed in one step on the thread that serves the tills. A larger
 * one contains a picture or comes from a file split in the wrong place.
 */
export const maxRecordCharacters = 1_048_576

/** More columns than any of the databases allows in a table. */
export const maxColumns = 4_096
