/** What is wrong with a definition. Each sentence follows the key, and its `hint` is the likely fix. */
export const definitionDestinations = {
  // Access by OAuth 2.0.
  NEEDS_REFRESH_TOKEN: 'necesita refreshToken: el que dio el emisor con la autorización',
  'NEEDS_REFRESH_TOKEN.hint': 'agregá refreshToken: ${env:NAME} o ${file:/path}',
  USELESS_WITHOUT_GRANT: 'no tiene efecto sin grant: refresh_token',
  'USELESS_WITHOUT_GRANT.hint': 'agregá grant: refresh_token',

  // Destinations.
  BUDGET_NEEDS_LIMIT: 'necesita un rateLimit al lado',
  'BUDGET_NEEDS_LIMIT.hint': 'agregá el límite del receptor: rateLimit: { max: 2, per: 1s }',
  NAME_RESERVED: 'está reservado: los errores de lectura se muestran como {name}',
  'NAME_RESERVED.hint': 'elegí otro nombre',
  NAME_TAKEN: 'es el nombre de un destino de más arriba',
  'NAME_TAKEN.hint': 'elegí otro nombre',
  MAP_AND_FIELDS: 'está junto a map; sólo uno de los dos puede hacer el cuerpo',
  'MAP_AND_FIELDS.hint': 'dejá map o fields',
  NAMES_NO_FIELD: 'no nombra ningún campo',
  'NAMES_NO_FIELD.hint': 'nombrá algunos, o sacá fields para enviar el ítem tal cual',
  KEY_NOT_IN_FIELDS: 'no está entre los fields, así que ninguna fila tendría clave',
  'KEY_NOT_IN_FIELDS.hint': 'agregá {column} a fields',
  PAUSE_BEYOND_MAX: 'empieza con una pausa más larga que su max',
  'PAUSE_BEYOND_MAX.hint': 'poné max en al menos {seconds}s',
  REMEMBERED_UNKNOWN: '{placeholder} no es nada que nombre remember',
  'REMEMBERED_UNKNOWN.hint': 'agregá remember: { {name}: … }, lo que es en la respuesta',
  CREATE_NEEDS_REMEMBER: 'necesita remember: si no, cada cambio crearía el ítem de nuevo',
  'CREATE_NEEDS_REMEMBER.hint': 'agregá remember: { id: id }',
  FIND_NEEDS_REMEMBER: 'necesita remember: nombra los valores de la respuesta que se guardan',
  'FIND_NEEDS_REMEMBER.hint': 'agregá remember: { id: id }',
  BATCH_NEEDS_REQUEST: 'necesita un pedido propio: la dirección del individual depende del ítem',
  'BATCH_NEEDS_REQUEST.hint': 'agregá request: { url: https://… }',
  NEEDS_DELETE: 'necesita delete, porque deletes.mode es delete',
  'NEEDS_DELETE.hint': 'agregá {example}, o escribí deletes: { mode: ignore }',
  REFUSES_STORE_DELETES:
    'rechazaría toda baja: una sucursal borrada en Mercado Pago no se recupera',
  'REFUSES_STORE_DELETES.hint':
    'escribí allowStoreDelete: true si querés eso, o deletes: { mode: ignore }',
  DELETE_USES_UNMADE:
    'usa body.{name}, que la conversión no hace, así que no se guarda para la baja',
  'DELETE_USES_UNMADE.hint': 'hacelo en fields o map, o usá {placeholder}',
  DELETE_USES_UNNAMED:
    'usa remembered.{name}, que remember no nombra, así que no se guarda para la baja',
  'DELETE_USES_UNNAMED.hint': 'agregá remember: { {name}: … }, lo que es en la respuesta',
  PATH_CLIMBS: 'no puede subir con ..',
  'PATH_CLIMBS.hint': 'escribí la ruta desde la raíz, o debajo de la carpeta de trabajo',
  FILE_TAKEN: 'es el archivo de un destino de más arriba; dos no pueden escribir un mismo archivo',
  'FILE_TAKEN.hint': 'dale un archivo propio',

  // Alerts.
  NO_SUCH_DESTINATION: 'no es el nombre de un destino de este flujo',
  'NO_SUCH_DESTINATION.hint': '[¿quisiste decir {meant}?][hay {known}]',
  MAIL_NOT_SET: 'el correo necesita la variable de entorno {name}',
  'MAIL_NOT_SET.hint': 'definí {name}',

  // Expressions.
  TOO_MANY_EXPRESSIONS: 'suma más de {most} caracteres de expresiones en un archivo',
  'TOO_MANY_EXPRESSIONS.hint': 'hacé dos flujos',
  NO_JSONATA: 'no es JSONata: {what}[ ({place})]',
  USES_EVAL: 'usa $eval, que no está disponible acá ({place})',
  USES_UNKNOWN: 'usa ${name}, que no se conoce ({place})',
  'USES_UNKNOWN.hint': 'un campo del ítem se escribe sin $',
  USES_MISSPELT: 'usa ${name}, que no se conoce ({place})',
  'USES_MISSPELT.hint': '¿quisiste decir ${meant}?',
  IN_EXPRESSION: '[línea {line}, ]columna {column} de la expresión',
} as const
