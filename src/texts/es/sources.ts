/** Why a source could not be read: databases, HTTP and servers of files. Those of files themselves follow the name of the file. */
export const sources = {
  AT_SOURCE: 'origen {source}: {what}',
  AT_ADDRESS: 'origen http: {method} {address}[ (página {page})]: {what}',
  SAID: '{said}',
  QUERY_NAME_UNKNOWN:
    '{said}. Corregí la tabla o columna en source.query, o dale permiso de lectura al usuario de la base',
  UNKNOWN: 'desconocido',
  UNKNOWN_FAILURE: 'falla desconocida',
  SOURCE_CLOSED: 'se cerró el origen',
  TOO_MANY_RECORDS: 'el origen tiene más de {most} registros (limits.maxRows)',
  SILENT: 'sin respuesta durante {ms} ms (limits.timeout)',
  LIST_STANDS_STILL: 'la lista no avanza',

  // Databases.
  COLUMN_WITHOUT_NAME: 'la consulta da una columna sin nombre; dale uno',
  COLUMN_TWICE: 'la consulta da la columna {column} dos veces; dales nombres distintos',
  COLUMN_TYPE_UNREAD:
    'la columna {column} es de un tipo que no se lee; convertila a varchar o timestamp en la consulta',
  COLUMN_BYTES_NO_TEXT:
    'la columna {column} tiene bytes que no son texto en {charset}; lo que no tiene juego de caracteres (SQL_ASCII, NONE) se lee según la dirección, por ejemplo ?charset=WIN1252',
  COLUMN_NO_CHARACTERS:
    'la columna {column} tiene bytes que no son caracteres de su intercalación; corregilos en el origen',
  CHARSET_UNKNOWN: 'la dirección tiene charset={charset}; se conocen {known}',
  NUMBER_TOO_EXACT:
    'la columna {column} tiene un número con más dígitos de los que se leen con exactitud; convertila a varchar en la consulta',
  PARAMETER_WITHOUT_VALUE:
    'la consulta tiene el parámetro :{name}, que acá no tiene valor. Existen :cursor (si el origen tiene cursor), los de source.parameters y, en itemQuery, :pk, :key_1 y :key_<campo>',
  IMPOSSIBLE_VALUE: 'un parámetro tiene un valor que su columna no puede tener',

  // HTTP.
  ANSWERED: 'HTTP {status}[ {said}][ {fault}][ (pide una pausa de {pause} s)]',
  REDIRECTED:
    'HTTP {status}[ {said}][ {fault}] (no se siguen los redireccionamientos a otro host)[ (pide una pausa de {pause} s)]',
  SOAP_FAULT: 'es un Fault de SOAP[: {said}]',
  ANSWER_ERRORS: 'la respuesta trae errores: {said}',
  IN_ANSWER: 'la respuesta {what}',
  NOT_TEXT_IN: 'no es texto en {charset}',
  LIST_MISPLACED: '{place} es {kind}, no una lista',
  THE_ANSWER: 'la respuesta',
  THE_ITEMS: 'items ({path})',
  ENTRY_NO_OBJECT: 'el registro {record} de {place} es {kind}, no un objeto',
  NO_ENTRY_OBJECT: 'ningún registro de {place} es un objeto: {what}',
  BROKEN_UNICODE: '{name} tiene Unicode dañado',
  PATH_VALUE: 'un valor no puede estar en la ruta de la dirección (. o ..)',
  PAGE_INFO_MISSING:
    '{place} no tiene hasNextPage; la consulta tiene que pedir hasNextPage y endCursor',
  PAGE_WITHOUT_END_CURSOR: '{place} dice que hay otra página, pero no tiene endCursor',
  SAME_PAGE: 'la misma página vino dos veces: ¿conoce el servidor el parámetro?',
  PAGE_READ_ALREADY: 'la página siguiente es una que ya se leyó',
  LIST_LONGER:
    'la lista dice que tiene {total} registros, y se leyeron {read}: configurá paging, o leé la lista entera de una vez',
  LIST_HAS_MORE: 'la lista dice que hay otra página, y paging no llega a ella: configurá paging',
  EMPTY_PAGES: 'más de {most} páginas seguidas sin un registro',
  KNOWN_PAGES: '{most} páginas seguidas sin un registro nuevo: ¿conoce el servidor el parámetro?',
  NEXT_PAGE_KIND: 'paging.next da {kind}, no un texto ni un número',
  NEXT_LINK_NO_ADDRESS: 'el enlace a la página siguiente no es una dirección',
  NEXT_PAGE_ELSEWHERE: 'la página siguiente está en otro origen ({origin}), al que no se llama',
  PAGES_CHANGE:
    'los registros siguen cambiando mientras se leen las páginas; después de {times} veces sigue la próxima lectura',
  ANSWER_TOO_LARGE: 'la respuesta ocupa más de {bytes} bytes',
  REQUEST_GIVEN_UP: 'el pedido se interrumpió',
  NO_CONNECTION_IN_TIME: 'no se pudo conectar a tiempo con {place}',
  NOT_ANSWERED: 'sin respuesta de {place} ({code})',
  NOT_A_URL: 'no es una URL',
  NOT_HTTP: 'sólo se llama a direcciones http y https',
  URL_WITH_USER: 'no se llama a una URL con usuario o contraseña; usá un encabezado authorization',
  NO_ADDRESS: '{host} no tiene dirección',
  METADATA_ADDRESS:
    '{host} es una dirección local de enlace o de metadatos de la nube, a la que nunca se llama',
  FIREBIRD_NEEDS_PASSWORD: 'la dirección de Firebird no tiene clave',
  PRIVATE_ADDRESS:
    '{host} está en un rango local, privado o reservado; allowPrivateNetwork: true los habilita',
  NOT_CONNECTED: 'sin respuesta de {place} (falló la conexión)',

  // SFTP.
  SERVER_LEFT: 'el servidor cortó la conexión',
  CONNECTION_CLOSED: 'se cerró la conexión',
  OTHER_HOST_KEY:
    'el servidor muestra la clave {key} ({type}), que no es la de source.hostKey; no se le envió nada',
  NO_SFTP: 'el servidor no da SFTP a este usuario: {said}',
  PRIVATE_KEY_UNREADABLE: 'source.privateKey: {said}',
  USER_REFUSED: 'el servidor rechaza al usuario, su contraseña o su clave',
  SERVER_SILENT: 'el servidor ya no responde',
} as const
