/**
 * Why the control API refuses a request. The first part is what it says of an error code when no reason tells more; the English
 * sentences are those of the catalogue of error codes.
 */
export const refusals = {
  VALIDATION_ERROR: 'El pedido tiene valores que no se permiten[: {said}]',
  BAD_REQUEST: 'El pedido no se pudo leer',
  CALLER_GONE: 'La conexión se cortó antes de empezar: no se hizo nada',
  UNAUTHORIZED: 'Hace falta un token válido, o ingresar con nombre y contraseña',
  FORBIDDEN: 'Este token no permite eso',
  UNKNOWN_HOST: 'Esta dirección no es la del servicio: abrí la que te dieron',
  NOT_FOUND: 'No existe',
  CONFLICT: 'Ya existe',
  PAYLOAD_TOO_LARGE: 'El pedido es demasiado grande: entran 256 KiB',
  UNSUPPORTED_MEDIA_TYPE: 'El formato del pedido no se acepta: tiene que ser application/json',
  REQUEST_TIMEOUT: 'El pedido no llegó a tiempo: probá de nuevo',
  RATE_LIMITED: 'Demasiados pedidos: esperá un momento',
  PROVIDER_REJECTED: 'Mercado Pago rechazó el pedido',
  PROVIDER_ERROR: 'Mercado Pago respondió con un error',
  PROVIDER_TIMEOUT: 'Mercado Pago no respondió a tiempo',
  OAUTH_NOT_CONNECTED: 'El cliente no tiene una cuenta de Mercado Pago conectada',
  CONNECTION_LOST:
    'Mercado Pago ya no acepta la conexión de este cliente: hay que conectarlo de nuevo',
  ACCOUNT_MISMATCH:
    'El cliente pertenece a otra cuenta de Mercado Pago; un administrador lo puede liberar',
  SERVICE_UNAVAILABLE: 'El servicio no puede trabajar en este momento: probá de nuevo',
  INTERNAL_ERROR: 'Algo falló en el servicio',

  // Who asks.
  ROLE_READS_ONLY: 'El rol {role} lee los flujos y no los cambia',
  ROLE_WITHOUT_FLOWS: 'Esta persona no maneja los flujos',
  OTHER_SITE: 'No se aceptan pedidos de otros sitios: abrí la página en su propia dirección',
  PROXY_WITHOUT_TOKEN:
    'Los pedidos que pasan por un proxy necesitan un token: configurá SYNC_TOKEN y mandalo como x-api-token',
  SIGN_IN_WRONG: 'El nombre, la contraseña o el código no son correctos',

  // What is asked for.
  FLOW_UNKNOWN: 'No existe ese flujo',
  DESTINATION_UNKNOWN: 'El flujo no tiene ese destino',
  DESTINATION_NOWHERE: 'Ningún flujo tiene ese destino',
  NO_ALERT_CHANNELS: 'El flujo no tiene canales de alerta',
  QUESTION_OVER: 'Esta pregunta ya no está abierta: leela de nuevo',
  ITEMS_NOT_ASKED: 'Solo se pueden elegir ítems sueltos cuando el flujo pregunta por bajas',
  ITEM_NOT_MISSING: 'El ítem {pk} no falta en el origen',

  // Why it cannot be done now.
  FLOWS_LOADING: 'Los flujos se están cargando: probá de nuevo',
  FLOWS_NOT_LOADED: 'Los flujos no se pudieron cargar: el registro dice por qué',
  SERVICE_STOPPING: 'El servicio se está deteniendo: probá de nuevo',
  POLLED_ELSEWHERE: 'Otro proceso está leyendo este flujo',
  ITEM_POLLED_MEANWHILE: 'Otras lecturas de este ítem terminaron antes cada vez; pedilo de nuevo',
  CONNECTION_NOT_THERE: 'No existe esa conexión',
  CONNECTION_ANSWERS: 'La base de datos responde',
  CONNECTION_STATUS: 'La dirección responde con HTTP {status}',
  CONNECTION_FOLDER: 'La carpeta se puede leer',
  CONNECTION_SENT: 'Se envió un mensaje de prueba',
  DRY_RUN_GOES_ON: 'Hay otra prueba en curso: probá de nuevo',

  // Flow files.
  WORKBENCH_OFF: 'FLOWS_WORKBENCH es false: las definiciones sólo se pueden leer',
  WORKBENCH_OPEN_TO_ALL:
    'SYNC_AUTH es none, así que cualquiera podría guardar definiciones: ingresá con tu nombre, o configurá SYNC_AUTH=auto y SYNC_TOKEN',
  WORKBENCH_ANONYMOUS:
    'Nadie ingresó y no hay SYNC_TOKEN: ingresá con tu nombre, o configurá SYNC_TOKEN o FLOWS_WORKBENCH=true',
  FLOWS_FOLDER_READ_ONLY:
    'No se puede guardar nada, el servicio no puede escribir en la carpeta de flujos: {said}',
  FLOW_FILE_UNKNOWN: 'No existe ese archivo de flujo',
  FLOW_FILE_VERSION_UNKNOWN: 'No existe esa versión',
  FLOW_FILE_NAME: 'Un archivo nuevo se llama nombre.flow.yaml, con a-z, 0-9, - y _ en el nombre',
  FLOW_FILE_LINK_OUT: 'El archivo es un enlace que lleva fuera de la carpeta',
  FLOW_FILE_NO_FILE: 'Es un enlace, o no es un archivo: cambiá aquello a lo que lleva',
  FLOW_FILE_UNREADABLE: 'El archivo {what}',
  FLOW_VERSIONS_NO_FOLDER: '{folder} no es una carpeta propia',
  FLOW_FILE_REMOVED: 'El archivo se borró mientras tanto: abrilo de nuevo, no se guardó nada',
  FLOW_FILE_EXISTS: 'Ya hay un archivo con ese nombre: abrilo de nuevo, no se guardó nada',
  FLOW_FILE_CHANGED: 'El archivo cambió mientras tanto: abrilo de nuevo, no se guardó nada',
  FLOW_FILE_BEING_SAVED: 'Otro proceso está guardando un archivo de flujo: probá de nuevo',
} as const
