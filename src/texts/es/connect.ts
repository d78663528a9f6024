/** The pages for the owner of a shop who connects an account. */
export const connect = {
  'connect.request_id': 'Para pedir ayuda, indicá:',
  'connect.continue': 'Seguir en Mercado Pago',
  'connect.connected.title': 'La cuenta quedó conectada',
  'connect.connected.advice': 'Ya podés cerrar esta ventana.',
  'connect.invited.title': 'Conectar la cuenta de Mercado Pago',
  'connect.invited.advice':
    'Este comercio cobrará, y podrá devolver dinero, con la cuenta con la que entres en el paso siguiente. Seguí solo si lo conocés y esperabas esta invitación.',
  'connect.on_the_way.title': 'Seguí en Mercado Pago',
  'connect.on_the_way.advice': 'Si la página no se abre sola, usá el botón.',

  'connect.bad_link.title': 'Este enlace no está completo',
  'connect.bad_link.advice':
    'Abrilo otra vez tal como lo recibiste, o pedí uno nuevo a quien te lo envió.',
  'connect.provider_failed.title': 'La cuenta no quedó conectada',
  'connect.provider_failed.advice':
    'Mercado Pago no respondió como se esperaba. Esperá unos minutos y abrí otra vez el enlace de conexión; si era una invitación, pedí una nueva.',
  'connect.unavailable.title': 'El servicio no puede atenderte ahora',
  'connect.unavailable.advice': 'Volvé a intentarlo en unos minutos.',
  'connect.OAUTH_DENIED.title': 'No se autorizó la conexión',
  'connect.OAUTH_DENIED.advice':
    'La cuenta no quedó conectada. Si fue sin querer, abrí otra vez el enlace de conexión; si era una invitación, pedí una nueva.',
  'connect.OAUTH_STATE_INVALID.title': 'Este intento de conexión ya no vale',
  'connect.OAUTH_STATE_INVALID.advice':
    'Se usó antes, pasaron más de diez minutos o empezó en otro navegador. Si ya viste que la cuenta quedó conectada, no falta nada. Si no, abrí otra vez el enlace de conexión; si era una invitación, pedí una nueva.',
  'connect.INVITATION_INVALID.title': 'Esta invitación ya no vale',
  'connect.INVITATION_INVALID.advice':
    'Cada invitación sirve una sola vez, dentro de un día. Pedí una nueva a quien te la envió.',
  'connect.FORBIDDEN.title': 'Hace falta una invitación',
  'connect.FORBIDDEN.advice':
    'Esta conexión empieza con un enlace de invitación. Pedilo a quien administra el servicio.',
  'connect.UNKNOWN_HOST.title': 'Esta dirección no es la del servicio',
  'connect.UNKNOWN_HOST.advice':
    'Abrí el enlace tal como lo recibiste. Si lo hiciste, avisale a quien administra el servicio.',
  'connect.OAUTH_ALREADY_CONNECTED.title': 'La cuenta ya está conectada',
  'connect.OAUTH_ALREADY_CONNECTED.advice': 'No falta nada: podés cerrar esta ventana.',
  'connect.API_KEY_REQUIRED.title': 'Este comercio no puede conectarse',
  'connect.API_KEY_REQUIRED.advice':
    'Todas sus claves fueron revocadas. Hablá con quien administra el servicio.',
  'connect.ACCOUNT_MISMATCH.title': 'Se eligió otra cuenta',
  'connect.ACCOUNT_MISMATCH.advice':
    'Este comercio pertenece a otra cuenta de Mercado Pago. Abrí otra vez el enlace de conexión y entrá con esa cuenta; para cambiarla, hablá con quien administra el servicio.',
  'connect.RATE_LIMITED.title': 'Demasiados intentos',
  'connect.RATE_LIMITED.advice': 'Esperá un minuto y abrí otra vez el enlace.',
} as const
