import type { Language } from './language.ts'
import { fillSentence } from './sentence.ts'

/**
 * Why a flow is paused, a poll failed, or a delivery failed or was skipped: the sentence of each code, in the languages of the
 * operators. `{…}` is filled with the reason's data, and a part in brackets is left out when what it would hold is not known.
 */
export const reasonTexts = {
  // Why a flow is paused, and why that is over.
  RUN_LIMIT_REACHED: {
    en: 'The limit of runs was reached',
    es: 'Se alcanzó el límite de corridas',
  },
  DEFINITION_MISSING: { en: 'definition missing', es: 'Falta el archivo de este flujo' },
  DEFINITION_BACK: { en: 'the definition is back', es: 'El archivo de este flujo volvió' },
  DEFINITION_CHANGED: {
    en: 'The definition changed. Resume: keep what was sent. Resync with force: send everything again',
    es: 'La definición cambió. Reanudar: queda lo enviado. Reenviar todo, aun en pausa: se envía todo de nuevo',
  },
  DEFINITION_SETTLED: {
    en: 'the definition asks nothing any more',
    es: 'La definición ya no pregunta nada',
  },
  DESTINATION_CHANGED: {
    en: 'Other destinations than before[: {destinations}]. All[ {items}] items would be sent to each, and nothing of what was delivered counts. Resume: send them. Or write the former address again',
    es: 'Hay destinos que son otros que antes[: {destinations}]. Se les enviarían todos los ítems[ ({items})], y nada de lo entregado cuenta. Reanudar: se envían. O escribí otra vez la dirección anterior',
  },
  DESTINATION_SETTLED: {
    en: 'the destinations are those of before, or were asked about anew',
    es: 'Los destinos son los de antes, o se preguntó de nuevo por ellos',
  },
  EVERYTHING_FORGOTTEN: {
    en: 'Everything was forgotten: it is sent again once the flow is resumed',
    es: 'Se olvidó todo: se envía de nuevo cuando se reanude el flujo',
  },
  START_PAUSED: { en: 'startPaused in the flow file', es: 'startPaused en el archivo del flujo' },
  ALL_START_PAUSED: { en: 'FLOWS_START_PAUSED', es: 'FLOWS_START_PAUSED: todo empieza en pausa' },

  // Why a delivery was skipped.
  NEVER_SENT: {
    en: 'nothing of it was sent to the destination',
    es: 'nunca se envió nada de esto al destino',
  },
  FILTERED_OUT: {
    en: 'the filter of the destination leaves it out',
    es: 'el filtro del destino lo deja afuera',
  },
  SAME_BODY: {
    en: 'the destination has the same body already',
    es: 'el destino ya tiene el mismo contenido',
  },
  MAPPED_TO_NOTHING: {
    en: 'the mapping gives nothing for it',
    es: 'la conversión no da nada para este ítem',
  },

  // Why a delivery failed: before anything was sent.
  MAPPING_FAILED: { en: '{said}', es: 'la conversión falló: {said}' },
  MAPPING_TIMEOUT: { en: '{said}', es: 'la conversión tardó demasiado: {said}' },
  MAPPING_MISFIT: {
    en: 'the mapping does not fit the destination: {said}',
    es: 'lo que da la conversión no es lo que toma el destino: {said}',
  },
  MAPPING_EMPTY: {
    en: 'the mapping made nothing of the item',
    es: 'la conversión no dio nada para este ítem',
  },
  NOT_DELIVERED_FIELDS: {
    en: 'the delete needs {fields} as it was delivered, and that is not on record: delete it at the destination by hand',
    es: 'la baja necesita {fields} tal como se entregó, y no está registrado: borralo a mano en el destino',
  },
  NO_DELETE_REQUEST: {
    en: 'the destination has no delete request',
    es: 'el destino no tiene un pedido de baja (delete)',
  },
  NO_OBJECT: {
    en: 'the destination needs an object, the mapping gave {kind}',
    es: 'el destino necesita un objeto, y la conversión dio otra cosa ({kind})',
  },
  KEY_WITHOUT_VALUE: {
    en: 'the mapping gave no value for the key: {columns}',
    es: 'la conversión no dio un valor para la clave: {columns}',
  },
  KEY_EMPTY: {
    en: 'the key column {column} would be empty: map a value for it',
    es: 'la columna de la clave {column} quedaría vacía: dale un valor',
  },
  TOO_MANY_COLUMNS: {
    en: 'a row has at most {most} columns',
    es: 'una fila tiene {most} columnas como máximo',
  },
  BYTES_WITHOUT_FORM: {
    en: 'the column {column} takes bytes: say what its text is, with binary: { {column}: base64 } or { {column}: text } at the destination',
    es: 'la columna {column} guarda bytes: indicá qué es su texto en el destino, con binary: { {column}: base64 } o { {column}: text }',
  },
  NO_BASE64: {
    en: 'the column {column} takes bytes, and its text is no base64',
    es: 'la columna {column} guarda bytes, y su texto no es base64',
  },
  BAD_NAME: { en: '{said}', es: 'un nombre no sirve en la base de datos: {said}' },
  FIELD_TAKEN: {
    en: 'the field {field} is ours; map it to another name',
    es: 'el campo {field} es del servicio: usá otro nombre',
  },
  FOREIGN_FILE: {
    en: 'the file there was not written by this destination',
    es: 'el archivo que está ahí no lo escribió este destino',
  },
  NO_COLUMN: {
    en: 'the file has no column for {fields}; begin a new file',
    es: 'el archivo no tiene columna para {fields}: empezá un archivo nuevo',
  },
  NO_STORE_DELETE: {
    en: 'a store is only deleted with deletes.mode: delete and allowStoreDelete: true, since that cannot be undone',
    es: 'una sucursal sólo se borra con deletes.mode: delete y allowStoreDelete: true, porque no se puede deshacer',
  },
  POS_TWICE: {
    en: 'pos: an external_id stands twice in the list',
    es: 'pos: un external_id está dos veces en la lista',
  },
  TEMPLATE_FAILED: { en: '{said}', es: 'el pedido no se pudo armar: {said}' },
  BAD_HEADER: {
    en: 'a header has a value that cannot be sent',
    es: 'un encabezado tiene un valor que no se puede enviar',
  },

  // Why a delivery failed: what the receiver answered.
  HTTP_STATUS: {
    en: 'HTTP {status}[ to {to}][ {said}]',
    es: 'HTTP {status}[ hacia {to}][ {said}]',
  },
  HTTP_REDIRECT: {
    en: 'HTTP {status}[ to {to}][ {said}] (redirects are not followed)',
    es: 'HTTP {status}[ hacia {to}][ {said}] (no se siguen los redireccionamientos)',
  },
  GONE: {
    en: 'HTTP {status}: the receiver has it no longer; it is created anew',
    es: 'HTTP {status}: el receptor ya no lo tiene; se crea de nuevo',
  },
  LOOKUP_GONE: {
    en: 'HTTP {status}: the receiver does not have the item',
    es: 'HTTP {status}: el receptor no tiene el ítem',
  },
  LOOKUP_UNCLEAR: {
    en: 'what was looked up (HTTP {status}) {said}',
    es: 'lo que se buscó (HTTP {status}) no sirve: {said}',
  },
  LOOKUP_INCOMPLETE: {
    en: 'what was looked up (HTTP {status}) does not have every value of remember',
    es: 'lo que se buscó (HTTP {status}) no tiene todos los valores de remember',
  },
  NOT_REMEMBERED: {
    en: 'the answer (HTTP {status}) has not what is to be remembered[: it {said}]; the item may be there by now',
    es: 'la respuesta (HTTP {status}) no tiene lo que hay que recordar[: {said}]; puede que el ítem ya esté allí',
  },
  BATCH_REFUSED: {
    en: 'the answer to the batch refuses it',
    es: 'la respuesta al lote lo rechaza',
  },
  BATCH_GONE: { en: 'the receiver has it no longer', es: 'el receptor ya no lo tiene' },
  BATCH_APART: { en: 'it goes alone', es: 'se envía solo' },
  BATCH_AGAIN: {
    en: 'the answer to the batch asks for another attempt',
    es: 'la respuesta al lote pide otro intento',
  },
  BATCH_SAID: { en: '{said}', es: '{said}' },
  BATCH_UNREADABLE: { en: '{said}', es: 'la respuesta al lote no se entiende: {said}' },
  BATCH_UNKNOWN: { en: 'it answers {said}', es: 'responde {said}' },
  BATCH_EMPTY: { en: 'the batch has no answer', es: 'el lote no tiene respuesta' },
  PAYMENTS_FAILED: { en: '{said}', es: 'el lado de los cobros no lo tomó: {said}' },
  NO_CLIENT: { en: 'There is no client {client}', es: 'No existe el cliente {client}' },

  // Why a delivery failed: what a database answered. `{code}` is SQLSTATE or an error number.
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
    en: 'a lock was waited for too long ({code})',
    es: 'se esperó demasiado por un bloqueo ({code})',
  },
  STATEMENT_TIMEOUT: {
    en: 'the statement took too long ({code})',
    es: 'la sentencia tardó demasiado ({code})',
  },
  STATEMENT_CANCELLED: {
    en: 'the statement took too long, or somebody ended it ({code})',
    es: 'la sentencia tardó demasiado, o alguien la terminó ({code})',
  },
  DATABASE_DOWN: {
    en: 'the database does not serve us ({code})',
    es: 'la base de datos no atiende ({code})',
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

  // Why a delivery failed: nobody answered, or nothing could be sent.
  NO_ANSWER: { en: 'no answer within {seconds} s', es: 'no hubo respuesta en {seconds} s' },
  NO_WHOLE_ANSWER: {
    en: 'no whole answer within {ms} ms',
    es: 'no hubo una respuesta completa en {ms} ms',
  },
  CONNECTION_FAILED: { en: '{said}', es: 'sin respuesta: {said}' },
  ADDRESS_REFUSED: { en: '{said}', es: 'no se puede enviar a esa dirección: {said}' },
  GIVEN_UP: { en: 'the delivery was given up', es: 'la entrega se interrumpió' },
  PERMIT_LOST: {
    en: 'the right to send was lost',
    es: 'se perdió el permiso para enviar',
  },
  FILE_NOT_WRITABLE: {
    en: 'the file cannot be written: {said}',
    es: 'no se puede escribir el archivo: {said}',
  },
  UNEXPECTED: {
    en: 'the destination failed unexpectedly; see the log',
    es: 'el destino falló de manera inesperada; mirá el registro',
  },
  TOKEN_FAILED: {
    en: 'no access token: {said}',
    es: 'no hay token de acceso: {said}',
  },
  TOKEN_REFUSED: {
    en: 'no access token: {said}; see tokenUrl, clientId, clientSecret and clientAuth',
    es: 'no hay token de acceso: {said}; mirá tokenUrl, clientId, clientSecret y clientAuth',
  },
  TOKEN_SEALED: {
    en: 'no access token: it is sealed with the key {key}, which this process was not given (ENCRYPTION_KEYS)',
    es: 'no hay token de acceso: está cifrado con la clave {key}, que este proceso no tiene (ENCRYPTION_KEYS)',
  },
  TOKEN_RENEWED_ELSEWHERE: {
    en: 'no access token yet: another process renews it, or was cut while it did',
    es: 'todavía no hay token de acceso: otro proceso lo renueva, o se cortó mientras lo hacía',
  },
  ACCESS_LOST_KEY: {
    en: 'no access token: the encryption key of the newest refresh token was lost. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and have the flows read again. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: se perdió la clave de cifrado del refresh token más nuevo. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos. Hasta entonces no se envía ni se lee nada con él, y nada se pierde.',
  },
  ACCESS_LOST_FIRST: {
    en: 'no access token: the issuer refused the refresh token ({code}); the first one is wrong, too old, or was used elsewhere already. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and have the flows read again. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); el primero está mal escrito, es demasiado viejo o ya se usó en otra parte. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos. Hasta entonces no se envía ni se lee nada con él, y nada se pierde.',
  },
  ACCESS_LOST_LATER: {
    en: 'no access token: the issuer refused the refresh token ({code}); it was revoked, was used by somebody else, or came back with a restored backup. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and have the flows read again. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); se revocó, lo usó otro o volvió con una copia de seguridad. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos. Hasta entonces no se envía ni se lee nada con él, y nada se pierde.',
  },
  ACCESS_LOST_CUT: {
    en: 'no access token: the issuer refused the refresh token ({code}); a renewal of {at} was cut before its answer was kept, so the token that it brought is lost. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and have the flows read again. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); la renovación del {at} se cortó antes de guardar su respuesta, y el token que trajo se perdió. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos. Hasta entonces no se envía ni se lee nada con él, y nada se pierde.',
  },

  // Why a destination is sent nothing for a while.
  ATTEMPTS_FAILED: {
    en: '{failed} of the last {among} attempts failed, the last one with: {last}',
    es: 'fallaron {failed} de los últimos {among} intentos, el último con: {last}',
  },
  PROBE_FAILED: {
    en: 'the attempt that looked whether it is back failed with: {last}',
    es: 'el intento que miró si ya volvía falló con: {last}',
  },

  // Why a poll failed, did not happen, or holds deletes back.
  POLL_FAILED: {
    en: 'the poll failed; see the log',
    es: 'la lectura falló; mirá el registro',
  },
  SOURCE_FAILED: { en: '{said}', es: 'el origen no se pudo leer: {said}' },
  RECORD_REFUSED: { en: '{said}', es: 'un registro no se pudo tomar: {said}' },
  SOURCE_WARNING: { en: '{said}', es: 'aviso del origen: {said}' },
  NO_FILE: { en: 'there is no file {path} to read', es: 'no existe el archivo {path}' },
  FIELDS_MISSING: {
    en: 'these fields are in none of the records: {fields}. The records have: {found}. Correct the source or the definition, where $exists(field) or optional: true says that it may be missing',
    es: 'estos campos faltan en todos los registros: {fields}. Los registros tienen: {found}. Corregí el origen o la definición, donde $exists(campo) u optional: true dicen que puede faltar',
  },
  TOO_MANY_WAITING: {
    en: '{most} deliveries or more wait, so the flow is not polled (queue.maxWaiting)',
    es: 'esperan {most} envíos o más, así que el flujo no se lee (queue.maxWaiting)',
  },
  DELETES_HELD_EMPTY: {
    en: '{items} deletes held back: the source is empty',
    es: '{items} bajas retenidas: el origen está vacío',
  },
  DELETES_HELD_MANY: {
    en: '{items} deletes held back: {percent} % of {known} items vanished at once, more than {most} %',
    es: '{items} bajas retenidas: faltan de golpe {percent} % de {known} ítems, más del {most} %',
  },
  DELETES_HELD_UNREAD: {
    en: '{items} deletes held back: the source had records that could not be read',
    es: '{items} bajas retenidas: el origen tenía registros que no se pudieron leer',
  },
  DELETES_HELD_OTHER_SOURCE: {
    en: '{items} deletes held back: the source is another one than before, and its items are compared for the first time',
    es: '{items} bajas retenidas: el origen es otro que antes, y sus ítems se comparan por primera vez',
  },
} as const satisfies Record<string, Record<'en' | 'es', string>>

export type ReasonCode = keyof typeof reasonTexts
export const reasonCodes = Object.keys(reasonTexts) as ReasonCode[]

/** What a sentence names; a reason within it is a sentence of its own. No secrets. */
export type ReasonData = { readonly [name: string]: string | number | Reason }
export type Reason = { readonly code: ReasonCode; readonly data?: ReasonData | undefined }

/** As it is stored: a process of a newer version may have written a code that this one does not know. */
export type StoredReason = { code: string; data?: { [name: string]: unknown } | undefined }

/** The sentence of a reason; undefined when its code is not known here. Languages without texts of their own get English. */
export function sentenceOf(reason: Reason, language: Language): string
export function sentenceOf(reason: StoredReason, language: Language): string | undefined
export function sentenceOf({ code, data = {} }: StoredReason, language: Language) {
  if (!isKnown(code)) return undefined
  const values = Object.fromEntries(
    Object.entries(data).map(([name, value]) => [name, valueText(value, language)]),
  )
  return fillSentence(reasonTexts[code][language === 'es' ? 'es' : 'en'], values)
}

function valueText(value: unknown, language: Language): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value !== 'object') return String(value)
  return 'code' in value
    ? (sentenceOf(value as StoredReason, language) ?? String(value.code))
    : undefined
}

function isKnown(code: string): code is ReasonCode {
  return Object.hasOwn(reasonTexts, code)
}

const longestValue = 1_000

/** A reason as it is kept: no text of it is too long, and none has a NUL, which the database holds nowhere. */
export function keptReason({ code, data }: Reason): Reason {
  if (data === undefined) return { code }
  const kept = Object.entries(data).map(([name, value]) => [name, keptValue(value)])
  return { code, data: Object.fromEntries(kept) }
}

function keptValue(value: string | number | Reason): string | number | Reason {
  if (typeof value === 'number') return value
  if (typeof value === 'object') return keptReason(value)
  const text = value.replaceAll('\0', '')
  return text.length > longestValue ? `${text.slice(0, longestValue - 1)}…` : text
}
