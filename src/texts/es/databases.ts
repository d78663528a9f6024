/** Why a delivery failed: what a database answered. `{code}` is SQLSTATE or an error number. */
export const databases = {
  OWN_DATABASE:
    'la dirección lleva a la base de datos del propio servicio, que ningún flujo puede usar',
  ROW_IN_THE_WAY:
    'otra fila tiene el mismo valor único ({code})[, columna {column}][, restricción {constraint}]',
  ROW_IN_THE_WAY_ALIKE:
    'otra fila tiene el mismo valor único, o uno que su columna no distingue (mayúsculas, acentos, espacios al final) ({code})',
  ROW_LOOKS_ALIKE:
    'ya hay una fila cuya clave difiere sólo en lo que su columna no distingue, como mayúsculas o acentos: dales a las columnas de upsertKey una intercalación binaria',
  REFERENCE_MISSING:
    'falta una fila a la que esta se refiere, o hay otras que se refieren a ella ({code})[, columna {column}][, restricción {constraint}]',
  TEXT_TOO_LONG: 'un texto es demasiado largo para su columna ({code})[, columna {column}]',
  NUMBER_TOO_LARGE: 'un número es demasiado grande para su columna ({code})[, columna {column}]',
  DATE_UNREADABLE: 'una fecha no se puede leer ({code})[, columna {column}]',
  DATE_OUT_OF_RANGE: 'una fecha está fuera de rango ({code})[, columna {column}]',
  VALUE_TYPE: 'un valor no es del tipo de su columna ({code})[, columna {column}]',
  BAD_CHARACTER:
    'un texto tiene un carácter que la base de datos no puede guardar ({code})[, columna {column}]',
  BAD_KEY_CHARACTER: 'la clave tiene un carácter que su columna no puede guardar ({code})',
  VALUE_MISSING: 'una columna obligatoria no tiene valor ({code})[, columna {column}]',
  CHECK_FAILED: 'una verificación de la tabla rechazó la fila ({code})[, restricción {constraint}]',
  NO_WRITE_PERMISSION: 'el usuario no puede escribir en la tabla ({code})',
  NO_UNIQUE_INDEX: 'la tabla no tiene un índice único sobre las columnas de upsertKey ({code})',
  SQL_SAID:
    'la base de datos lo rechazó: {said} ({code})[, columna {column}][, restricción {constraint}]',
  SQL_REFUSED:
    'la base de datos lo rechazó ({code})[, columna {column}][, restricción {constraint}]',
  DATABASE_BUSY: 'la base de datos estaba ocupada ({code})',
  LOCK_TIMEOUT: 'un bloqueo no se liberó a tiempo ({code})',
  STATEMENT_TIMEOUT: 'la sentencia tardó demasiado ({code})',
  STATEMENT_CANCELLED: 'la sentencia tardó demasiado, o la cortó otra sesión ({code})',
  DATABASE_DOWN: 'la base de datos no acepta conexiones ({code})',
  DATABASE_SILENT: 'la base de datos no responde[ ({code})]',
  DATABASE_LATE: 'la base de datos no respondió a tiempo ({code})',
  CONNECTION_FILE: 'un archivo de la conexión no sirve: {said}',
  TOO_MANY_CONNECTIONS: 'demasiadas entregas a la vez a este servidor',
} as const
