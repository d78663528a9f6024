import type { ReasonTexts } from './reason-texts.ts'

/** Why a delivery failed: what a database answered. `{code}` is SQLSTATE or an error number. */
export const databaseReasons = {
  OWN_DATABASE: {
    en: 'the address leads to the database of the service itself, which no flow may use',
    es: 'la dirección lleva a la base de datos del propio servicio, que ningún flujo puede usar',
  },
  ROW_IN_THE_WAY: {
    en: 'another row has the same unique value ({code})[, column {column}][, constraint {constraint}]',
    es: 'otra fila tiene el mismo valor único ({code})[, columna {column}][, restricción {constraint}]',
  },
  ROW_IN_THE_WAY_ALIKE: {
    en: 'another row has the same unique value, or one that its column does not tell apart (case, accents, blanks at the end) ({code})',
    es: 'otra fila tiene el mismo valor único, o uno que su columna no distingue (mayúsculas, acentos, espacios al final) ({code})',
  },
  ROW_LOOKS_ALIKE: {
    en: 'a row is there whose key differs only in what its column does not tell apart, such as case or accents; give the columns of upsertKey a binary collation',
    es: 'ya hay una fila cuya clave difiere sólo en lo que su columna no distingue, como mayúsculas o acentos: dales a las columnas de upsertKey una intercalación binaria',
  },
  REFERENCE_MISSING: {
    en: 'a row that this one refers to is missing, or others still refer to it ({code})[, column {column}][, constraint {constraint}]',
    es: 'falta una fila a la que esta se refiere, o hay otras que se refieren a ella ({code})[, columna {column}][, restricción {constraint}]',
  },
  TEXT_TOO_LONG: {
    en: 'a text is too long for its column ({code})[, column {column}]',
    es: 'un texto es demasiado largo para su columna ({code})[, columna {column}]',
  },
  NUMBER_TOO_LARGE: {
    en: 'a number is too large for its column ({code})[, column {column}]',
    es: 'un número es demasiado grande para su columna ({code})[, columna {column}]',
  },
  DATE_UNREADABLE: {
    en: 'a date cannot be read ({code})[, column {column}]',
    es: 'una fecha no se puede leer ({code})[, columna {column}]',
  },
  DATE_OUT_OF_RANGE: {
    en: 'a date is out of range ({code})[, column {column}]',
    es: 'una fecha está fuera de rango ({code})[, columna {column}]',
  },
  VALUE_TYPE: {
    en: 'a value does not fit the type of its column ({code})[, column {column}]',
    es: 'un valor no es del tipo de su columna ({code})[, columna {column}]',
  },
  BAD_CHARACTER: {
    en: 'a text holds a character that the database cannot keep ({code})[, column {column}]',
    es: 'un texto tiene un carácter que la base de datos no puede guardar ({code})[, columna {column}]',
  },
  BAD_KEY_CHARACTER: {
    en: 'the key has a character that its column cannot hold ({code})',
    es: 'la clave tiene un carácter que su columna no puede guardar ({code})',
  },
  VALUE_MISSING: {
    en: 'a required column has no value ({code})[, column {column}]',
    es: 'una columna obligatoria no tiene valor ({code})[, columna {column}]',
  },
  CHECK_FAILED: {
    en: 'a check of the table refused the row ({code})[, constraint {constraint}]',
    es: 'una verificación de la tabla rechazó la fila ({code})[, restricción {constraint}]',
  },
  NO_WRITE_PERMISSION: {
    en: 'the user may not write to the table ({code})',
    es: 'el usuario no puede escribir en la tabla ({code})',
  },
  NO_UNIQUE_INDEX: {
    en: 'the table has no unique index on the columns of upsertKey ({code})',
    es: 'la tabla no tiene un índice único sobre las columnas de upsertKey ({code})',
  },
  SQL_SAID: {
    en: '{said} ({code})[, column {column}][, constraint {constraint}]',
    es: 'la base de datos lo rechazó: {said} ({code})[, columna {column}][, restricción {constraint}]',
  },
  SQL_REFUSED: {
    en: 'refused ({code})[, column {column}][, constraint {constraint}]',
    es: 'la base de datos lo rechazó ({code})[, columna {column}][, restricción {constraint}]',
  },
  DATABASE_BUSY: {
    en: 'the database was busy ({code})',
    es: 'la base de datos estaba ocupada ({code})',
  },
  LOCK_TIMEOUT: {
    en: 'a lock was not free in time ({code})',
    es: 'un bloqueo no se liberó a tiempo ({code})',
  },
  STATEMENT_TIMEOUT: {
    en: 'the statement took too long ({code})',
    es: 'la sentencia tardó demasiado ({code})',
  },
  STATEMENT_CANCELLED: {
    en: 'the statement took too long, or another session ended it ({code})',
    es: 'la sentencia tardó demasiado, o la cortó otra sesión ({code})',
  },
  DATABASE_DOWN: {
    en: 'the database refuses connections ({code})',
    es: 'la base de datos no acepta conexiones ({code})',
  },
  DATABASE_SILENT: {
    en: 'no answer from the database[ ({code})]',
    es: 'la base de datos no responde[ ({code})]',
  },
  DATABASE_LATE: {
    en: 'no answer from the database in time ({code})',
    es: 'la base de datos no respondió a tiempo ({code})',
  },
  CONNECTION_FILE: { en: '{said}', es: 'un archivo de la conexión no sirve: {said}' },
  TOO_MANY_CONNECTIONS: {
    en: 'too many deliveries to this server at a time',
    es: 'demasiadas entregas a la vez a este servidor',
  },
} as const satisfies ReasonTexts
