import type { ReasonTexts } from './reason-texts.ts'

/** Why a delivery was skipped, or failed: before anything was sent, by the answer, or without one. */
export const deliveryReasons = {
  // Why a delivery was skipped.
  NEVER_SENT: {
    en: 'nothing of it was sent to the destination',
    es: 'nunca se envió nada de esto al destino',
  },
  FILTERED_OUT: {
    en: 'the filter of the destination leaves it out',
    es: 'el filtro del destino lo deja afuera',
  },
  STILL_THERE: {
    en: '{what}; the destination still has what was delivered before',
    es: '{what}; el destino todavía tiene lo que recibió antes',
  },
  SAME_BODY: {
    en: 'the destination has the same body already',
    es: 'el destino ya tiene el mismo contenido',
  },
  DELETE_CLAIMED: {
    en: 'not deleted: {pk} of the flow {flow} has the same identity there',
    es: 'no se borró: {pk} del flujo {flow} tiene la misma identidad en el destino',
  },
  DELETE_WAITS: {
    en: 'not deleted yet: {pk} of the flow {flow} has the same identity there; it waits until that flow misses it too',
    es: 'todavía no se borró: {pk} del flujo {flow} tiene la misma identidad en el destino; espera hasta que ese flujo tampoco lo encuentre',
  },
  MAPPED_TO_NOTHING: {
    en: 'the mapping gives nothing for it',
    es: 'la conversión no da nada para este ítem',
  },

  // Why a delivery failed: before anything was sent.
  MAPPING_TIMEOUT: { en: '{said}', es: 'la conversión tardó demasiado: {said}' },
  MAPPING_EMPTY: {
    en: 'the mapping made nothing of the item',
    es: 'la conversión no dio nada para este ítem',
  },
  NOT_DELIVERED_BODY: {
    en: 'the delete needs the body as it was delivered, and that is not on record: delete it at the destination by hand',
    es: 'la baja necesita el cuerpo tal como se entregó, y no está registrado: borralo a mano en el destino',
  },
  DELETE_ALIKE: {
    en: 'not deleted: the destination may take it for {pk} of the flow {flow}, whose identity is written almost the same; delete it there by hand if it is another one',
    es: 'no se borró: el destino puede tomarlo por {pk} del flujo {flow}, cuya identidad se escribe casi igual; si es otro, borralo a mano en el destino',
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
  FIELD_TAKEN: {
    en: 'the service uses the field {field}; map it to another name',
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
    en: 'pos: an external_id is twice in the list',
    es: 'pos: un external_id está dos veces en la lista',
  },
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
  FOREIGN_ANSWER: {
    en: 'HTTP {status}[ to {to}] {what}: it is not an answer of this API',
    es: 'HTTP {status}[ hacia {to}] {what}: no es una respuesta de esta API',
  },
  ANSWER_DIFFERS: {
    en: 'HTTP {status}, but the answer differs from what was sent: {said}',
    es: 'HTTP {status}, pero la respuesta no coincide con lo enviado: {said}',
  },
  BODY_IS_PAGE: { en: 'with an HTML page', es: 'con una página HTML' },
  BODY_IS_EMPTY: { en: 'without a body', es: 'sin contenido' },
  BODY_NO_OBJECT: { en: 'without a JSON object', es: 'sin un objeto JSON' },
  GONE: {
    en: 'HTTP {status}: the receiver no longer has it; the flow creates it again',
    es: 'HTTP {status}: el receptor ya no lo tiene; se crea de nuevo',
  },
  LOOKUP_GONE: {
    en: 'HTTP {status}: the receiver does not have the item',
    es: 'HTTP {status}: el receptor no tiene el ítem',
  },
  LOOKUP_UNCLEAR: {
    en: 'the look-up (HTTP {status}) {said}',
    es: 'la búsqueda (HTTP {status}) no sirve: {said}',
  },
  LOOKUP_INCOMPLETE: {
    en: 'the look-up (HTTP {status}) does not have every value of remember',
    es: 'la búsqueda (HTTP {status}) no trajo todos los valores de remember',
  },
  LOOKUP_DIFFERS: {
    en: 'the look-up (HTTP {status}) shows another value of remember than the stored one',
    es: 'la búsqueda (HTTP {status}) trae otro valor de remember que el guardado',
  },
  NOT_REMEMBERED: {
    en: 'the answer (HTTP {status}) does not have the values of remember[: it {said}]; the item may exist by now',
    es: 'la respuesta (HTTP {status}) no tiene lo que hay que recordar[: {said}]; puede que el ítem ya esté ahí',
  },
  BATCH_TOO_LARGE: {
    en: 'the answer to the batch is too large to be read',
    es: 'la respuesta al lote es demasiado grande para leerse',
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
  BATCH_UNKNOWN: { en: 'it answers {said}', es: 'responde {said}' },
  BATCH_EMPTY: { en: 'the batch has no answer', es: 'el lote no tiene respuesta' },
  PAYMENTS_REFUSED: {
    en: '{what}[: {said}]',
    es: 'el lado de los cobros no lo tomó: {what}[: {said}]',
  },
  NO_CLIENT: { en: 'There is no client {client}', es: 'No existe el cliente {client}' },

  NO_ANSWER: { en: 'no answer within {seconds} s', es: 'no hubo respuesta en {seconds} s' },
  NO_WHOLE_ANSWER: {
    en: 'no whole answer within {ms} ms',
    es: 'no hubo una respuesta completa en {ms} ms',
  },
  NO_ANSWER_AT_ALL: { en: 'no answer', es: 'sin respuesta' },
  ADDRESS_REFUSED: { en: '{said}', es: 'no se puede enviar a esa dirección: {said}' },
  GIVEN_UP: { en: 'the delivery was interrupted', es: 'la entrega se interrumpió' },
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
} as const satisfies ReasonTexts
