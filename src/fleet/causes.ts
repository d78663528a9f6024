import type { Language } from '../domain/language.ts'

/** What the reader should do, as a fixed word. The message has the whole sentence. */
export const actions = [
  'set_pdv',
  'pair_terminal',
  'check_terminal_power',
  'free_terminal',
  'look_at_terminal',
  'settle_doubt',
  'look_at_order',
  'look_at_payments',
  'read_refusal',
  'check_provider_status',
  'reconnect',
  'pin_account',
  'check_webhook_address',
  'try_a_charge',
  'resume_flow',
  'check_source',
  'check_service',
  'check_destination',
  'authorize_again',
  'wait',
] as const
export type Action = (typeof actions)[number]

type CauseTexts = Record<Language, string> & { action: Action | null }

/**
 * Every cause of a state. `{…}` is replaced by a value, and a part in brackets is left out when its value is not known.
 * `{for}` is how long the state has lasted, such as "3 minutes"; `{nextTryIn}` is the time until the next try. Times of
 * day are avoided, since shops have different time zones.
 */
export const causes = {
  terminal_standalone: {
    action: 'set_pdv',
    es: 'La terminal[ {terminalId}] está en modo independiente[, desde hace {for}][ (cobros rechazados: {count})]: pásela a modo PDV.',
    en: 'The terminal[ {terminalId}] is in standalone mode[, for {for}][ (charges refused: {count})]: switch it to PDV mode.',
    pt: 'O terminal[ {terminalId}] está em modo independente[, há {for}][ (cobranças recusadas: {count})]: passe-o para o modo PDV.',
  },
  terminal_missing: {
    action: 'pair_terminal',
    es: 'La caja no tiene ninguna terminal vinculada[, desde hace {for}][ (cobros rechazados: {count})]: vinculá una en la app de Mercado Pago.',
    en: 'No terminal is paired with the box[, for {for}][ (charges refused: {count})]: pair one in the Mercado Pago app.',
    pt: 'O caixa não tem nenhum terminal vinculado[, há {for}][ (cobranças recusadas: {count})]: vincule um no app do Mercado Pago.',
  },
  terminal_silent: {
    action: 'check_terminal_power',
    es: 'La terminal[ {terminalId}] no responde[ desde hace {for}]: probá en otra caja y revisá que esté encendida y con conexión.',
    en: 'The terminal[ {terminalId}] has not answered[ for {for}]: try another box, and check that it is on and online.',
    pt: 'O terminal[ {terminalId}] não responde[ há {for}]: tente em outro caixa e veja se está ligado e com conexão.',
  },
  terminal_held: {
    action: 'free_terminal',
    es: 'La terminal[ {terminalId}] está ocupada por otro cobro[ ({reference})][ desde hace {for}]: terminalo, o anulalo desde la caja o en la terminal.',
    en: 'The terminal[ {terminalId}] is held by another charge[ ({reference})][ for {for}]: finish it, or cancel it at the till or on the terminal.',
    pt: 'O terminal[ {terminalId}] está ocupado por outra cobrança[ ({reference})][ há {for}]: termine-a, ou cancele-a pelo caixa ou no terminal.',
  },
  terminal_waits: {
    action: 'look_at_terminal',
    es: 'La terminal[ {terminalId}] pide que alguien mire el cobro {reference}[, desde hace {for}].',
    en: 'The terminal[ {terminalId}] wants somebody to look at the charge {reference}[ for {for}].',
    pt: 'O terminal[ {terminalId}] pede que alguém veja a cobrança {reference}[, há {for}].',
  },
  refused: {
    action: 'read_refusal',
    es: 'Mercado Pago rechaza los cobros de la caja[, {count} seguidos][, desde hace {for}]: mirá el motivo en el registro.',
    en: 'Mercado Pago refuses the charges of the box[, {count} in a row][ for {for}]: read the reason in the activity log.',
    pt: 'O Mercado Pago recusa as cobranças do caixa[, {count} seguidas][, há {for}]: veja o motivo no registro.',
  },
  provider_failing: {
    action: 'check_provider_status',
    es: 'Mercado Pago no responde bien[ a {operation}][ desde hace {for}]: no depende de la tienda; cobrá de otra forma y mirá su página de estado.',
    en: 'Mercado Pago fails[ at {operation}][ for {for}]: it is not the shop; take another payment, and look at its status page.',
    pt: 'O Mercado Pago falha[ em {operation}][ há {for}]: não é a loja; cobre de outra forma e veja a página de estado.',
  },
  throttled: {
    action: 'wait',
    es: 'Mercado Pago limita las llamadas[ {operation}][ desde hace {for}]: se reintenta más despacio.',
    en: 'Mercado Pago limits calls[ {operation}][ for {for}]: it is tried again more slowly.',
    pt: 'O Mercado Pago limita as chamadas[ {operation}][ há {for}]: tenta-se de novo mais devagar.',
  },
  service_failing: {
    action: 'check_service',
    es: 'El servicio no pudo atender el último cobro[, hace {for}]: mirá su estado y su registro.',
    en: 'The service could not carry out the last charge[, {for} ago]: look at its health and its log.',
    pt: 'O serviço não pôde atender a última cobrança[, há {for}]: veja seu estado e seu registro.',
  },
  connection_lost: {
    action: 'reconnect',
    es: 'La conexión con Mercado Pago se perdió[ desde hace {for}]: volvé a conectar la cuenta.',
    en: 'The connection to Mercado Pago is lost[ for {for}]: connect the account again.',
    pt: 'A conexão com o Mercado Pago foi perdida[ há {for}]: conecte a conta de novo.',
  },
  connection_expiring: {
    action: 'reconnect',
    es: 'La conexión con Mercado Pago está por vencer y no se pudo renovar[ desde hace {for}]: volvé a conectar la cuenta antes de que se pierda.',
    en: 'The connection to Mercado Pago is about to expire and could not be renewed[ for {for}]: connect the account again before it is lost.',
    pt: 'A conexão com o Mercado Pago está para vencer e não pôde ser renovada[ há {for}]: conecte a conta de novo antes que se perca.',
  },
  not_connected: {
    action: 'reconnect',
    es: 'El cliente no tiene una cuenta de Mercado Pago conectada: conéctela.',
    en: 'The client has no Mercado Pago account connected: connect one.',
    pt: 'O cliente não tem uma conta do Mercado Pago conectada: conecte uma.',
  },
  account_unpinned: {
    action: 'pin_account',
    es: 'La cuenta del cliente fue liberada: la próxima conexión elige otra; conectá la correcta.',
    en: 'The account of the client was released: the next connection chooses one; connect the right one.',
    pt: 'A conta do cliente foi liberada: a próxima conexão escolhe outra; conecte a correta.',
  },
  webhooks_missing: {
    action: 'check_webhook_address',
    es: 'No llegan avisos de Mercado Pago[ desde hace {for}]; los cobros se siguen consultando: revisá la dirección y la clave de los webhooks.',
    en: 'No webhooks of Mercado Pago arrive[ for {for}]; charges are still looked up: check the address and the secret of the webhooks.',
    pt: 'Não chegam avisos do Mercado Pago[ há {for}]; as cobranças continuam sendo consultadas: revise o endereço e a chave dos webhooks.',
  },
  payments_unreadable: {
    action: 'look_at_payments',
    es: 'Hay pagos de Mercado Pago que no se pueden leer ({count})[, desde hace {for}]: mírelos en su panel; los cierres de esos días quedan sin verificar.',
    en: 'Payments of Mercado Pago cannot be read ({count})[, for {for}]: look at them in its panel; the closings of those days stay unverified.',
    pt: 'Há pagamentos do Mercado Pago que não podem ser lidos ({count})[, há {for}]: veja-os no painel; os fechamentos desses dias ficam sem verificar.',
  },
  in_doubt: {
    action: 'settle_doubt',
    es: 'No se sabe si el cobro {reference} se hizo[, desde hace {for}]: preguntale a Mercado Pago o mirá la terminal y decí qué viste.',
    en: 'Whether the charge {reference} was made is not known[ for {for}]: ask the provider, or look at the terminal and say what you saw.',
    pt: 'Não se sabe se a cobrança {reference} foi feita[, há {for}]: pergunte ao Mercado Pago ou olhe o terminal e diga o que viu.',
  },
  contradicted: {
    action: 'look_at_order',
    es: 'Mercado Pago dice del cobro {reference} algo que contradice el registro: mírelo.',
    en: 'Mercado Pago says of the charge {reference} what contradicts the record: look at it.',
    pt: 'O Mercado Pago diz da cobrança {reference} algo que contradiz o registro: veja-a.',
  },
  paid_late: {
    action: 'look_at_order',
    es: 'El cobro {reference} se dio por no pagado y después se pagó[; en su lugar se cobró {instead}]: decí que se pagó o devolvelo.',
    en: 'The charge {reference} counted as not paid and was paid afterwards[; {instead} was charged instead]: settle it as paid or refund it.',
    pt: 'A cobrança {reference} foi dada como não paga e depois foi paga[; em seu lugar cobrou-se {instead}]: diga que vale ou devolva-a.',
  },
  paid_less: {
    action: 'look_at_order',
    es: 'Del cobro {reference} el cliente pagó menos que lo pedido: cobrá el resto y decí que se pagó, o devolvelo.',
    en: 'The customer paid less than was asked for the charge {reference}: take the rest and settle it as paid, or refund it.',
    pt: 'Da cobrança {reference} o cliente pagou menos que o pedido: receba o resto e diga que vale, ou devolva-a.',
  },
  settled_unpaid: {
    action: 'look_at_order',
    es: 'Alguien dijo que el cobro {reference} se pagó, y Mercado Pago muestra que no: cobralo de nuevo y decí que no se pagó.',
    en: 'Somebody said that the charge {reference} was paid, and the provider shows that it was not: charge it again and settle it as not paid.',
    pt: 'Alguém disse que a cobrança {reference} foi paga, e o Mercado Pago mostra que não: cobre-a de novo e diga que não foi paga.',
  },
  refund_in_doubt: {
    action: 'settle_doubt',
    es: 'No se sabe si se hizo una devolución del cobro {reference}: miralo en el panel de Mercado Pago y decí qué viste.',
    en: 'Whether a refund of the charge {reference} was made is not known: look in the panel of Mercado Pago and say what you saw.',
    pt: 'Não se sabe se uma devolução da cobrança {reference} foi feita: veja no painel do Mercado Pago e diga o que viu.',
  },
  box_silent: {
    action: 'try_a_charge',
    es: 'La caja no cobra desde hace {for}, y a esta hora suele hacerlo: pregunte si pasa algo.',
    en: 'The box has not charged for {for}, and at this hour it usually does: ask whether something is wrong.',
    pt: 'O caixa não cobra há {for}, e a esta hora costuma cobrar: pergunte se há algo errado.',
  },
  quiet: {
    action: null,
    es: 'El último cobro fue hace {for}; si ahora puede cobrar se sabe con el próximo.',
    en: 'The last charge was {for} ago; whether it can charge now shows with the next one.',
    pt: 'A última cobrança foi há {for}; se agora pode cobrar, mostra-se com a próxima.',
  },
  never_charged: {
    action: null,
    es: 'Todavía no se vio ningún cobro: con el primero se sabe si la caja puede cobrar.',
    en: 'No charge was seen yet: the first one shows whether the box can charge.',
    pt: 'Ainda não se viu nenhuma cobrança: a primeira mostra se o caixa pode cobrar.',
  },
  not_called: {
    action: null,
    es: 'No se llamó últimamente, así que no se sabe.',
    en: 'It was not called lately, so nobody knows.',
    pt: 'Não foi chamado ultimamente, então não se sabe.',
  },
  flow_paused: {
    action: 'resume_flow',
    es: 'El flujo está en pausa[ desde hace {for}]: reanúdelo cuando corresponda.',
    en: 'The flow is paused[ for {for}]: resume it when the time has come.',
    pt: 'O fluxo está em pausa[ há {for}]: retome-o quando for a hora.',
  },
  flow_limited: {
    action: 'resume_flow',
    es: 'El flujo usó su límite de corridas: quitá el límite para que siga.',
    en: 'The flow has used up its run limit: lift it to go on.',
    pt: 'O fluxo usou seu limite de execuções: retire-o para continuar.',
  },
  source_failing: {
    action: 'check_source',
    es: 'El origen del flujo no se puede leer[ desde hace {for}]: mirá el error y el origen.',
    en: 'The source of the flow cannot be read[ for {for}]: look at the error and the source.',
    pt: 'A origem do fluxo não pode ser lida[ há {for}]: veja o erro e a origem.',
  },
  not_polled: {
    action: 'check_service',
    es: 'El flujo debió leerse y no se leyó[ desde hace {for}]: mirá el registro del servicio.',
    en: 'The flow should have been polled and was not[ for {for}]: look at the log of the service.',
    pt: 'O fluxo deveria ter sido lido e não foi[ há {for}]: veja o registro do serviço.',
  },
  never_polled: {
    action: null,
    es: 'El flujo todavía no se leyó.',
    en: 'The flow was not polled yet.',
    pt: 'O fluxo ainda não foi lido.',
  },
  access_lost: {
    action: 'authorize_again',
    es: 'Quien da el acceso ya no lo renueva[ ({code})][ desde hace {for}]: autorizá la aplicación otra vez, poné el nuevo refresh token[ en {place}] y hacé releer los flujos.',
    en: 'The issuer renews the access no more[ ({code})][ for {for}]: authorize the application again, put the new refresh token[ into {place}] and have the flows read again.',
    pt: 'Quem dá o acesso já não o renova[ ({code})][ há {for}]: autorize a aplicação de novo, ponha o novo refresh token[ em {place}] e faça reler os fluxos.',
  },
  polls_held_back: {
    action: 'check_destination',
    es: 'El flujo no se lee porque sus destinos deben demasiado.',
    en: 'The flow is not polled because its destinations are owed too much.',
    pt: 'O fluxo não é lido porque seus destinos têm pendências demais.',
  },
  destination_resting: {
    action: 'check_destination',
    es: 'El destino descansa después de fallar[ desde hace {for}]; debe recibir {owed}[ y se prueba de nuevo en {nextTryIn}]: revisá que responda.',
    en: 'The destination rests after failures[ for {for}]; {owed} are owed to it[, and it is tried again in {nextTryIn}]: check that it answers.',
    pt: 'O destino descansa depois de falhar[ há {for}]; faltam-lhe {owed}[ e tenta-se de novo em {nextTryIn}]: veja se responde.',
  },
  destination_asked_to_wait: {
    action: 'wait',
    es: 'El destino pidió esperar[ desde hace {for}]; debe recibir {owed}.',
    en: 'The destination asked to wait[ for {for}]; {owed} are owed to it.',
    pt: 'O destino pediu para esperar[ há {for}]; faltam-lhe {owed}.',
  },
  owed_for_long: {
    action: 'check_destination',
    es: 'El destino debe recibir {owed}, lo más viejo desde hace {for}: revisá que responda.',
    en: '{owed} are owed to the destination, the oldest for {for}: check that it answers.',
    pt: 'Faltam ao destino {owed}, o mais antigo há {for}: veja se responde.',
  },
  deliveries_failed: {
    action: 'check_destination',
    es: 'El destino rechazó {count} para siempre: mirá los errores y reintentalos.',
    en: '{count} deliveries to the destination have failed for good: look at the errors and retry them.',
    pt: 'O destino recusou {count} em definitivo: veja os erros e tente de novo.',
  },
} as const satisfies Record<string, CauseTexts>

export type Cause = keyof typeof causes

/** Causes about one order: the same cause about another order is another problem. */
export const causesOfOneOrder: readonly Cause[] = [
  'paid_late',
  'paid_less',
  'settled_unpaid',
  'refund_in_doubt',
]
export const causeWords = Object.keys(causes) as [Cause, ...Cause[]]

/** The action for a cause. */
export function actionOf(cause: Cause | null): Action | null {
  return cause && causes[cause].action
}
