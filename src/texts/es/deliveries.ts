/** Why a delivery was skipped, or failed: before anything was sent, by the answer, or without one. */
export const deliveries = {
  // Why a delivery was skipped.
  NEVER_SENT: 'nunca se envió nada de esto al destino',
  FILTERED_OUT: 'el filtro del destino lo deja afuera',
  STILL_THERE: '{what}; el destino todavía tiene lo que recibió antes',
  SAME_BODY: 'el destino ya tiene el mismo contenido',
  DELETE_CLAIMED: 'no se borró: {pk} del flujo {flow} tiene la misma identidad en el destino',
  DELETE_WAITS:
    'todavía no se borró: {pk} del flujo {flow} tiene la misma identidad en el destino; espera hasta que ese flujo tampoco lo encuentre',
  MAPPED_TO_NOTHING: 'la conversión no da nada para este ítem',

  // Why a delivery failed: before anything was sent.
  MAPPING_TIMEOUT: 'la conversión tardó demasiado: {said}',
  MAPPING_EMPTY: 'la conversión no dio nada para este ítem',
  NOT_DELIVERED_BODY:
    'la baja necesita el cuerpo tal como se entregó, y no está registrado: borralo a mano en el destino',
  DELETE_ALIKE:
    'no se borró: el destino puede tomarlo por {pk} del flujo {flow}, cuya identidad se escribe casi igual; si es otro, borralo a mano en el destino',
  NO_DELETE_REQUEST: 'el destino no tiene un pedido de baja (delete)',
  NO_OBJECT: 'el destino necesita un objeto, y la conversión dio otra cosa ({kind})',
  KEY_WITHOUT_VALUE: 'la conversión no dio un valor para la clave: {columns}',
  KEY_EMPTY: 'la columna de la clave {column} quedaría vacía: dale un valor',
  TOO_MANY_COLUMNS: 'una fila tiene {most} columnas como máximo',
  BYTES_WITHOUT_FORM:
    'la columna {column} guarda bytes: indicá qué es su texto en el destino, con binary: { {column}: base64 } o { {column}: text }',
  NO_BASE64: 'la columna {column} guarda bytes, y su texto no es base64',
  FIELD_TAKEN: 'el campo {field} es del servicio: usá otro nombre',
  FOREIGN_FILE: 'el archivo que está ahí no lo escribió este destino',
  NO_COLUMN: 'el archivo no tiene columna para {fields}: empezá un archivo nuevo',
  NO_STORE_DELETE:
    'una sucursal sólo se borra con deletes.mode: delete y allowStoreDelete: true, porque no se puede deshacer',
  POS_TWICE: 'pos: un external_id está dos veces en la lista',
  BAD_HEADER: 'un encabezado tiene un valor que no se puede enviar',

  // Why a delivery failed: what the receiver answered.
  HTTP_STATUS: 'HTTP {status}[ hacia {to}][ {said}]',
  HTTP_REDIRECT: 'HTTP {status}[ hacia {to}][ {said}] (no se siguen los redireccionamientos)',
  FOREIGN_ANSWER: 'HTTP {status}[ hacia {to}] {what}: no es una respuesta de esta API',
  ANSWER_DIFFERS: 'HTTP {status}, pero la respuesta no coincide con lo enviado: {said}',
  BODY_IS_PAGE: 'con una página HTML',
  BODY_IS_EMPTY: 'sin contenido',
  BODY_NO_OBJECT: 'sin un objeto JSON',
  GONE: 'HTTP {status}: el receptor ya no lo tiene; se crea de nuevo',
  LOOKUP_GONE: 'HTTP {status}: el receptor no tiene el ítem',
  LOOKUP_UNCLEAR: 'la búsqueda (HTTP {status}) no sirve: {said}',
  LOOKUP_INCOMPLETE: 'la búsqueda (HTTP {status}) no trajo todos los valores de remember',
  LOOKUP_DIFFERS: 'la búsqueda (HTTP {status}) trae otro valor de remember que el guardado',
  NOT_REMEMBERED:
    'la respuesta (HTTP {status}) no tiene lo que hay que recordar[: {said}]; puede que el ítem ya esté ahí',
  BATCH_TOO_LARGE: 'la respuesta al lote es demasiado grande para leerse',
  BATCH_REFUSED: 'la respuesta al lote lo rechaza',
  BATCH_GONE: 'el receptor ya no lo tiene',
  BATCH_APART: 'se envía solo',
  BATCH_AGAIN: 'la respuesta al lote pide otro intento',
  BATCH_SAID: '{said}',
  BATCH_UNKNOWN: 'responde {said}',
  BATCH_EMPTY: 'el lote no tiene respuesta',
  PAYMENTS_REFUSED: 'el lado de los cobros no lo tomó: {what}[: {said}]',
  NO_CLIENT: 'No existe el cliente {client}',

  NO_ANSWER: 'no hubo respuesta en {seconds} s',
  NO_WHOLE_ANSWER: 'no hubo una respuesta completa en {ms} ms',
  NO_ANSWER_AT_ALL: 'sin respuesta',
  ADDRESS_REFUSED: 'no se puede enviar a esa dirección: {said}',
  GIVEN_UP: 'la entrega se interrumpió',
  PERMIT_LOST: 'se perdió el permiso para enviar',
  FILE_NOT_WRITABLE: 'no se puede escribir el archivo: {said}',
  UNEXPECTED: 'el destino falló de manera inesperada; mirá el registro',
} as const
