import type { ReasonTexts } from './reason-texts.ts'

/**
 * Why the control API refuses a request. The first part is what it says of an error code when no reason tells more; the English
 * sentences are those of the catalogue of error codes.
 */
export const refusalReasons = {
  VALIDATION_ERROR: {
    en: 'The request has values that are not allowed[: {said}]',
    es: 'El pedido tiene valores que no se permiten[: {said}]',
  },
  BAD_REQUEST: {
    en: 'The request could not be read',
    es: 'El pedido no se pudo leer',
  },
  CALLER_GONE: {
    en: 'The client disconnected before the request began',
    es: 'La conexión se cortó antes de empezar: no se hizo nada',
  },
  UNAUTHORIZED: {
    en: 'A valid x-api-token header is required',
    es: 'Hace falta un token válido, o ingresar con nombre y contraseña',
  },
  FORBIDDEN: {
    en: 'This token has no permission for this request',
    es: 'Este token no permite eso',
  },
  UNKNOWN_HOST: {
    en: 'Signing in is not possible under this address of the service',
    es: 'Esta dirección no es la del servicio: abrí la que te dieron',
  },
  NOT_FOUND: { en: 'Not found', es: 'No existe' },
  CONFLICT: { en: 'The resource exists already', es: 'Ya existe' },
  PAYLOAD_TOO_LARGE: {
    en: 'The body is larger than 256 KiB (a report sent as text/csv: 8 MiB)',
    es: 'El pedido es demasiado grande: entran 256 KiB',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    en: 'Send the body as application/json',
    es: 'El formato del pedido no se acepta: tiene que ser application/json',
  },
  REQUEST_TIMEOUT: {
    en: 'The request did not arrive in time',
    es: 'El pedido no llegó a tiempo: probá de nuevo',
  },
  RATE_LIMITED: {
    en: 'Too many requests; wait as Retry-After says',
    es: 'Demasiados pedidos: esperá un momento',
  },
  PROVIDER_REJECTED: {
    en: 'The provider refused the request',
    es: 'Mercado Pago rechazó el pedido',
  },
  PROVIDER_ERROR: {
    en: 'The provider answered with an error',
    es: 'Mercado Pago respondió con un error',
  },
  PROVIDER_TIMEOUT: {
    en: 'The provider did not answer in time',
    es: 'Mercado Pago no respondió a tiempo',
  },
  OAUTH_NOT_CONNECTED: {
    en: 'The client has no connected provider account',
    es: 'El cliente no tiene una cuenta de Mercado Pago conectada',
  },
  CONNECTION_LOST: {
    en: 'The provider no longer accepts the connection of this client; connect it again',
    es: 'Mercado Pago ya no acepta la conexión de este cliente: hay que conectarlo de nuevo',
  },
  ACCOUNT_MISMATCH: {
    en: 'The client belongs to another provider account; an administrator can release it',
    es: 'El cliente pertenece a otra cuenta de Mercado Pago; un administrador lo puede liberar',
  },
  SERVICE_UNAVAILABLE: {
    en: 'The service is not available at the moment; try again',
    es: 'El servicio no puede trabajar en este momento: probá de nuevo',
  },
  INTERNAL_ERROR: {
    en: 'Internal error of the service',
    es: 'Algo falló en el servicio',
  },

  // Who asks.
  ROLE_READS_ONLY: {
    en: 'The role {role} reads flows and does not change them',
    es: 'El rol {role} lee los flujos y no los cambia',
  },
  ROLE_WITHOUT_FLOWS: {
    en: 'This person does not run flows',
    es: 'Esta persona no maneja los flujos',
  },
  OTHER_SITE: {
    en: 'Requests from other sites are refused',
    es: 'No se aceptan pedidos de otros sitios: abrí la página en su propia dirección',
  },
  PROXY_WITHOUT_TOKEN: {
    en: 'Requests through a proxy need a token: set SYNC_TOKEN and send it as x-api-token',
    es: 'Los pedidos que pasan por un proxy necesitan un token: configurá SYNC_TOKEN y mandalo como x-api-token',
  },
  SIGN_IN_WRONG: {
    en: 'Name, password or code are wrong',
    es: 'El nombre, la contraseña o el código no son correctos',
  },

  // What is asked for.
  FLOW_UNKNOWN: { en: 'There is no such flow', es: 'No existe ese flujo' },
  DESTINATION_UNKNOWN: {
    en: 'The flow has no such destination',
    es: 'El flujo no tiene ese destino',
  },
  DESTINATION_NOWHERE: {
    en: 'No flow has such a destination',
    es: 'Ningún flujo tiene ese destino',
  },
  NO_ALERT_CHANNELS: {
    en: 'The flow has no alert channels',
    es: 'El flujo no tiene canales de alerta',
  },
  QUESTION_OVER: {
    en: 'This question is not asked any more: read it again',
    es: 'Esta pregunta ya no está abierta: leela de nuevo',
  },
  ITEMS_NOT_ASKED: {
    en: 'Single items can be chosen only where the flow asks about deletes',
    es: 'Solo se pueden elegir ítems sueltos cuando el flujo pregunta por bajas',
  },
  ITEM_NOT_MISSING: {
    en: 'The item {pk} is not missing at the source',
    es: 'El ítem {pk} no falta en el origen',
  },

  // Why it cannot be done now.
  FLOWS_LOADING: {
    en: 'The flows are being loaded; try again',
    es: 'Los flujos se están cargando: probá de nuevo',
  },
  FLOWS_NOT_LOADED: {
    en: 'The flows could not be loaded; the log says why',
    es: 'Los flujos no se pudieron cargar: el registro dice por qué',
  },
  SERVICE_STOPPING: {
    en: 'The service is stopping; try again',
    es: 'El servicio se está deteniendo: probá de nuevo',
  },
  POLLED_ELSEWHERE: {
    en: 'Another process is polling this flow',
    es: 'Otro proceso está leyendo este flujo',
  },
  ITEM_POLLED_MEANWHILE: {
    en: 'The flow is polled again and again while the item is read; its polls send it',
    es: 'El flujo se lee una y otra vez mientras se lee el ítem: sus corridas lo envían',
  },
  CONNECTION_NOT_THERE: { en: 'There is no such connection', es: 'No existe esa conexión' },
  CONNECTION_ANSWERS: { en: 'The database answers', es: 'La base de datos responde' },
  CONNECTION_STATUS: {
    en: 'The address answers with HTTP {status}',
    es: 'La dirección responde con HTTP {status}',
  },
  CONNECTION_FOLDER: { en: 'The folder can be read', es: 'La carpeta se puede leer' },
  CONNECTION_SENT: { en: 'A test message is sent', es: 'Se envió un mensaje de prueba' },
  DRY_RUN_GOES_ON: {
    en: 'Another dry run goes on; try again',
    es: 'Hay otra prueba en curso: probá de nuevo',
  },

  // Flow files.
  WORKBENCH_OFF: {
    en: 'FLOWS_WORKBENCH is false: definitions can be read only',
    es: 'FLOWS_WORKBENCH es false: las definiciones sólo se pueden leer',
  },
  WORKBENCH_OPEN_TO_ALL: {
    en: 'SYNC_AUTH is none, so every caller could save definitions: sign in by name, or set SYNC_AUTH=auto and SYNC_TOKEN',
    es: 'SYNC_AUTH es none, así que cualquiera podría guardar definiciones: ingresá con tu nombre, o configurá SYNC_AUTH=auto y SYNC_TOKEN',
  },
  WORKBENCH_ANONYMOUS: {
    en: 'No person has signed in and no SYNC_TOKEN is set: sign in by name, or set SYNC_TOKEN or FLOWS_WORKBENCH=true',
    es: 'Nadie ingresó y no hay SYNC_TOKEN: ingresá con tu nombre, o configurá SYNC_TOKEN o FLOWS_WORKBENCH=true',
  },
  FLOWS_FOLDER_READ_ONLY: {
    en: 'Nothing can be saved: the folder {said}',
    es: 'No se puede guardar nada, el servicio no puede escribir en la carpeta de flujos: {said}',
  },
  FLOW_FILE_UNKNOWN: { en: 'There is no such flow file', es: 'No existe ese archivo de flujo' },
  FLOW_FILE_VERSION_UNKNOWN: { en: 'There is no such version', es: 'No existe esa versión' },
  FLOW_FILE_NAME: {
    en: 'A new file is called name.flow.yaml, with a-z, 0-9, - and _ in its name',
    es: 'Un archivo nuevo se llama nombre.flow.yaml, con a-z, 0-9, - y _ en el nombre',
  },
  FLOW_FILE_LINK_OUT: {
    en: 'The file is a link that leads out of the folder',
    es: 'El archivo es un enlace que lleva fuera de la carpeta',
  },
  FLOW_FILE_NO_FILE: {
    en: 'The file is a link or no file; change what it leads to',
    es: 'Es un enlace, o no es un archivo: cambiá aquello a lo que lleva',
  },
  FLOW_FILE_UNREADABLE: { en: 'The file {what}', es: 'El archivo {what}' },
  FLOW_VERSIONS_NO_FOLDER: {
    en: '{folder} is no folder of its own',
    es: '{folder} no es una carpeta propia',
  },
  FLOW_FILE_REMOVED: {
    en: 'The file was removed meanwhile; read it again, nothing was saved',
    es: 'El archivo se borró mientras tanto: abrilo de nuevo, no se guardó nada',
  },
  FLOW_FILE_EXISTS: {
    en: 'There is a file of this name already; read it again, nothing was saved',
    es: 'Ya hay un archivo con ese nombre: abrilo de nuevo, no se guardó nada',
  },
  FLOW_FILE_CHANGED: {
    en: 'The file was changed meanwhile; read it again, nothing was saved',
    es: 'El archivo cambió mientras tanto: abrilo de nuevo, no se guardó nada',
  },
  FLOW_FILE_BEING_SAVED: {
    en: 'Another process is saving a flow file; try again',
    es: 'Otro proceso está guardando un archivo de flujo: probá de nuevo',
  },
} as const satisfies ReasonTexts
