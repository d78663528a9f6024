/**
 * Why the control API refuses a request. The first part is what it says of an error code when no reason tells more; the English
 * sentences are those of the catalogue of error codes.
 */
export const refusals = {
  VALIDATION_ERROR: 'The request has values that are not allowed[: {said}]',
  BAD_REQUEST: 'The request could not be read',
  CALLER_GONE: 'The client disconnected before the request began',
  UNAUTHORIZED: 'A valid x-api-token header is required',
  FORBIDDEN: 'This token has no permission for this request',
  UNKNOWN_HOST: 'Signing in is not possible under this address of the service',
  NOT_FOUND: 'Not found',
  CONFLICT: 'The resource exists already',
  PAYLOAD_TOO_LARGE: 'The body is larger than 256 KiB (a report sent as text/csv: 8 MiB)',
  UNSUPPORTED_MEDIA_TYPE: 'Send the body as application/json',
  REQUEST_TIMEOUT: 'The request did not arrive in time',
  RATE_LIMITED: 'Too many requests; wait as Retry-After says',
  PROVIDER_REJECTED: 'The provider refused the request',
  PROVIDER_ERROR: 'The provider answered with an error',
  PROVIDER_TIMEOUT: 'The provider did not answer in time',
  OAUTH_NOT_CONNECTED: 'The client has no connected provider account',
  CONNECTION_LOST: 'The provider no longer accepts the connection of this client; connect it again',
  ACCOUNT_MISMATCH:
    'The client belongs to another provider account; an administrator can release it',
  SERVICE_UNAVAILABLE: 'The service is not available at the moment; try again',
  INTERNAL_ERROR: 'Internal error of the service',

  // Who asks.
  ROLE_READS_ONLY: 'The role {role} reads flows and does not change them',
  ROLE_WITHOUT_FLOWS: 'This person does not run flows',
  OTHER_SITE: 'Requests from other sites are refused',
  PROXY_WITHOUT_TOKEN:
    'Requests through a proxy need a token: set SYNC_TOKEN and send it as x-api-token',
  SIGN_IN_WRONG: 'Name, password or code are wrong',

  // What is asked for.
  FLOW_UNKNOWN: 'There is no such flow',
  DESTINATION_UNKNOWN: 'The flow has no such destination',
  DESTINATION_NOWHERE: 'No flow has such a destination',
  NO_ALERT_CHANNELS: 'The flow has no alert channels',
  QUESTION_OVER: 'This question is not asked any more: read it again',
  ITEMS_NOT_ASKED: 'Single items can be chosen only where the flow asks about deletes',
  ITEM_NOT_MISSING: 'The item {pk} is not missing at the source',

  // Why it cannot be done now.
  FLOWS_LOADING: 'The flows are being loaded; try again',
  FLOWS_NOT_LOADED: 'The flows could not be loaded; the log says why',
  SERVICE_STOPPING: 'The service is stopping; try again',
  POLLED_ELSEWHERE: 'Another process is polling this flow',
  ITEM_POLLED_MEANWHILE: 'Polls or other reads of this item came first each time; ask again',
  CONNECTION_NOT_THERE: 'There is no such connection',
  CONNECTION_ANSWERS: 'The database answers',
  CONNECTION_STATUS: 'The address answers with HTTP {status}',
  CONNECTION_FOLDER: 'The folder can be read',
  CONNECTION_SENT: 'A test message is sent',
  DRY_RUN_GOES_ON: 'Another dry run goes on; try again',

  // Flow files.
  WORKBENCH_OFF: 'FLOWS_WORKBENCH is false: definitions can be read only',
  WORKBENCH_OPEN_TO_ALL:
    'SYNC_AUTH is none, so every caller could save definitions: sign in by name, or set SYNC_AUTH=auto and SYNC_TOKEN',
  WORKBENCH_ANONYMOUS:
    'No person has signed in and no SYNC_TOKEN is set: sign in by name, or set SYNC_TOKEN or FLOWS_WORKBENCH=true',
  FLOWS_FOLDER_READ_ONLY: 'Nothing can be saved: the folder {said}',
  FLOW_FILE_UNKNOWN: 'There is no such flow file',
  FLOW_FILE_VERSION_UNKNOWN: 'There is no such version',
  FLOW_FILE_NAME: 'A new file is called name.flow.yaml, with a-z, 0-9, - and _ in its name',
  FLOW_FILE_LINK_OUT: 'The file is a link that leads out of the folder',
  FLOW_FILE_NO_FILE: 'The file is a link or no file; change what it leads to',
  FLOW_FILE_UNREADABLE: 'The file {what}',
  FLOW_VERSIONS_NO_FOLDER: '{folder} is no folder of its own',
  FLOW_FILE_REMOVED: 'The file was removed meanwhile; read it again, nothing was saved',
  FLOW_FILE_EXISTS: 'There is a file of this name already; read it again, nothing was saved',
  FLOW_FILE_CHANGED: 'The file was changed meanwhile; read it again, nothing was saved',
  FLOW_FILE_BEING_SAVED: 'Another process is saving a flow file; try again',
} as const
