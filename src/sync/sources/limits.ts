/**
 * Of one record as a source writes it. A record is one piece of work on the thread that serves the tills; what is larger
 * holds a picture or is a file that was cut wrongly.
 */
export const maxRecordCharacters = 1_048_576

/** More than any of the databases allows in a table. */
export const maxColumns = 4_096
