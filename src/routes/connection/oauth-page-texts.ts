import type { Language } from '../../domain/language.ts'
import type { ErrorCode } from '../../errors/app-error.ts'

/** For each language a title, and what to do. */
export type PageText = Record<Language, readonly [title: string, advice: string]>

export const requestIdText: Record<Language, string> = {
  es: 'Para pedir ayuda, indicá:',
  en: 'When asking for help, quote:',
  pt: 'Para pedir ajuda, informe:',
}

export const connectedText: PageText = {
  es: ['La cuenta quedó conectada', 'Ya podés cerrar esta ventana.'],
  en: ['The account is connected', 'You may close this window.'],
  pt: ['A conta foi conectada', 'Você já pode fechar esta janela.'],
}

export const invitedText: PageText = {
  es: [
    'Conectar la cuenta de Mercado Pago',
    'Este comercio cobrará, y podrá devolver dinero, con la cuenta con la que entres en el paso siguiente. Seguí solo si lo conocés y esperabas esta invitación.',
  ],
  en: [
    'Connect the Mercado Pago account',
    'This shop will charge, and can refund, with the account you log in to in the next step. Go on only if you know it and expected this invitation.',
  ],
  pt: [
    'Conectar a conta do Mercado Pago',
    'Esta loja vai cobrar, e poderá devolver dinheiro, com a conta em que você entrar no próximo passo. Continue só se você a conhece e esperava este convite.',
  ],
}

export const continueText: Record<Language, string> = {
  es: 'Seguir en Mercado Pago',
  en: 'Continue at Mercado Pago',
  pt: 'Continuar no Mercado Pago',
}

export const onTheWayText: PageText = {
  es: ['Seguí en Mercado Pago', 'Si la página no se abre sola, usá el botón.'],
  en: ['Continue at Mercado Pago', 'If the page does not open by itself, use the button.'],
  pt: ['Continue no Mercado Pago', 'Se a página não abrir sozinha, use o botão.'],
}

const badLink: PageText = {
  es: [
    'Este enlace no está completo',
    'Abrilo otra vez tal como lo recibiste, o pedí uno nuevo a quien te lo envió.',
  ],
  en: [
    'This link is not complete',
    'Open it again exactly as you received it, or ask the sender for a new one.',
  ],
  pt: [
    'Este link não está completo',
    'Abra-o de novo exatamente como o recebeu, ou peça um novo a quem o enviou.',
  ],
}

const providerFailed: PageText = {
  es: [
    'La cuenta no quedó conectada',
    'Mercado Pago no respondió como se esperaba. Esperá unos minutos y abrí otra vez el enlace de conexión; si era una invitación, pedí una nueva.',
  ],
  en: [
    'The account is not connected',
    'Mercado Pago did not answer as expected. Wait a few minutes and open the connection link again; if it was an invitation, ask for a new one.',
  ],
  pt: [
    'A conta não foi conectada',
    'O Mercado Pago não respondeu como esperado. Aguarde alguns minutos e abra de novo o link de conexão; se era um convite, peça um novo.',
  ],
}

const unavailable: PageText = {
  es: ['El servicio no puede atenderte ahora', 'Volvé a intentarlo en unos minutos.'],
  en: ['The service cannot help you right now', 'Try again in a few minutes.'],
  pt: ['O serviço não pode atender agora', 'Tente de novo em alguns minutos.'],
}

const byCode: Partial<Record<ErrorCode, PageText>> = {
  VALIDATION_ERROR: badLink,
  BAD_REQUEST: badLink,
  PROVIDER_REJECTED: providerFailed,
  PROVIDER_ERROR: providerFailed,
  PROVIDER_TIMEOUT: providerFailed,
  OAUTH_DENIED: {
    es: [
      'No se autorizó la conexión',
      'La cuenta no quedó conectada. Si fue sin querer, abrí otra vez el enlace de conexión; si era una invitación, pedí una nueva.',
    ],
    en: [
      'The connection was not authorised',
      'The account is not connected. If that was a mistake, open the connection link again; if it was an invitation, ask for a new one.',
    ],
    pt: [
      'A conexão não foi autorizada',
      'A conta não foi conectada. Se foi sem querer, abra de novo o link de conexão; se era um convite, peça um novo.',
    ],
  },
  OAUTH_STATE_INVALID: {
    es: [
      'Este intento de conexión ya no vale',
      'Se usó antes, pasaron más de diez minutos o empezó en otro navegador. Si ya viste que la cuenta quedó conectada, no falta nada. Si no, abrí otra vez el enlace de conexión; si era una invitación, pedí una nueva.',
    ],
    en: [
      'This attempt to connect is over',
      'It was used before, more than ten minutes have passed, or it began in another browser. If you saw that the account is connected, nothing is missing. If not, open the connection link again; if it was an invitation, ask for a new one.',
    ],
    pt: [
      'Esta tentativa de conexão já não vale',
      'Ela já foi usada, passaram mais de dez minutos ou começou em outro navegador. Se você viu que a conta foi conectada, não falta nada. Se não, abra de novo o link de conexão; se era um convite, peça um novo.',
    ],
  },
  INVITATION_INVALID: {
    es: [
      'Esta invitación ya no vale',
      'Cada invitación sirve una sola vez, dentro de un día. Pedí una nueva a quien te la envió.',
    ],
    en: [
      'This invitation is no longer valid',
      'An invitation works once, within a day. Ask the sender for a new one.',
    ],
    pt: [
      'Este convite já não vale',
      'Cada convite vale uma só vez, dentro de um dia. Peça um novo a quem o enviou.',
    ],
  },
  FORBIDDEN: {
    es: [
      'Hace falta una invitación',
      'Esta conexión empieza con un enlace de invitación. Pedilo a quien administra el servicio.',
    ],
    en: [
      'You need an invitation',
      'This connection begins with an invitation link. Ask the administrator of the service for one.',
    ],
    pt: [
      'É preciso um convite',
      'Esta conexão começa com um link de convite. Peça-o a quem administra o serviço.',
    ],
  },
  UNKNOWN_HOST: {
    es: [
      'Esta dirección no es la del servicio',
      'Abrí el enlace tal como lo recibiste. Si lo hiciste, avisale a quien administra el servicio.',
    ],
    en: [
      'This is not the address of the service',
      'Open the link exactly as you received it. If you did, tell the administrator of the service.',
    ],
    pt: [
      'Este não é o endereço do serviço',
      'Abra o link exatamente como o recebeu. Se já fez isso, avise quem administra o serviço.',
    ],
  },
  OAUTH_ALREADY_CONNECTED: {
    es: ['La cuenta ya está conectada', 'No falta nada: puede cerrar esta ventana.'],
    en: ['The account is connected already', 'Nothing is missing: you may close this window.'],
    pt: ['A conta já está conectada', 'Não falta nada: você pode fechar esta janela.'],
  },
  API_KEY_REQUIRED: {
    es: [
      'Este comercio no puede conectarse',
      'Todas sus claves fueron revocadas. Hablá con quien administra el servicio.',
    ],
    en: [
      'This shop cannot connect',
      'All of its keys were revoked. Talk to the administrator of the service.',
    ],
    pt: [
      'Esta loja não pode se conectar',
      'Todas as suas chaves foram revogadas. Fale com quem administra o serviço.',
    ],
  },
  ACCOUNT_MISMATCH: {
    es: [
      'Se eligió otra cuenta',
      'Este comercio pertenece a otra cuenta de Mercado Pago. Abrí otra vez el enlace de conexión y entrá con esa cuenta; para cambiarla, hablá con quien administra el servicio.',
    ],
    en: [
      'Another account was chosen',
      'This shop belongs to another Mercado Pago account. Open the connection link again and log in with that account; to change it, talk to the administrator of the service.',
    ],
    pt: [
      'Foi escolhida outra conta',
      'Esta loja pertence a outra conta do Mercado Pago. Abra de novo o link de conexão e entre com essa conta; para trocá-la, fale com quem administra o serviço.',
    ],
  },
  RATE_LIMITED: {
    es: ['Demasiados intentos', 'Esperá un minuto y abrí otra vez el enlace.'],
    en: ['Too many attempts', 'Wait a minute and open the link again.'],
    pt: ['Tentativas demais', 'Aguarde um minuto e abra de novo o link.'],
  },
}

/** The text for a person when a connection fails for this reason. */
export function failureText(code: ErrorCode): PageText {
  return byCode[code] ?? unavailable
}
