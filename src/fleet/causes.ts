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
  'resume_flow',
  'start_sending',
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
    es: 'La terminal[ {terminalId}] está en modo independiente[, desde hace {for}][ (cobros rechazados: {count})]: pasala a modo PDV.',
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
  terminal_busy: {
    action: 'free_terminal',
    es: 'La terminal[ {terminalId}] está ocupada por otro cobro[ ({reference})][ desde hace {for}]: terminalo, o anulalo desde la caja o en la terminal.',
    en: 'The terminal[ {terminalId}] is busy with another charge[ ({reference})][ for {for}]: finish it, or cancel it at the till or on the terminal.',
    pt: 'O terminal[ {terminalId}] está ocupado por outra cobrança[ ({reference})][ há {for}]: termine-a, ou cancele-a pelo caixa ou no terminal.',
  },
  terminal_waits: {
    action: 'look_at_terminal',
    es: 'La terminal[ {terminalId}] no confirmó el resultado del cobro {reference}[, desde hace {for}]: mirá su pantalla.',
    en: 'The terminal[ {terminalId}] did not confirm the result of the charge {reference}[, {for} ago]: look at its screen.',
    pt: 'O terminal[ {terminalId}] não confirmou o resultado da cobrança {reference}[, há {for}]: veja a tela dele.',
  },
  refused: {
    action: 'read_refusal',
    es: 'Mercado Pago rechaza los cobros de la caja[, {count} seguidos][, desde hace {for}]: mirá el motivo en el registro.',
    en: 'Mercado Pago refuses the charges of the box[, {count} in a row][ for {for}]: read the reason in the activity log.',
    pt: 'O Mercado Pago recusa as cobranças do caixa[, {count} seguidas][, há {for}]: veja o motivo no registro.',
  },
  provider_failing: {
    action: 'check_provider_status',
    es: 'Mercado Pago falla[ desde hace {for}]. El problema no es de la tienda: cobrá con otro medio y mirá la página de estado de Mercado Pago.',
    en: 'Mercado Pago fails[ for {for}]. The shop is not the cause: use another means of payment, and read Mercado Pago’s status page.',
    pt: 'O Mercado Pago falha[ há {for}]. O problema não é da loja: cobre de outra forma e veja a página de estado do Mercado Pago.',
  },
  throttled: {
    action: 'wait',
    es: 'Mercado Pago limita las llamadas[ desde hace {for}]: el servicio reintenta más despacio.',
    en: 'Mercado Pago limits calls[ for {for}]: the service retries more slowly.',
    pt: 'O Mercado Pago limita as chamadas[ há {for}]: tenta-se de novo mais devagar.',
  },
  service_failing: {
    action: 'check_service',
    es: 'El servicio no pudo procesar el último cobro[, hace {for}]: mirá su estado y su registro.',
    en: 'The service could not process the last charge[, {for} ago]: check GET /health and the log.',
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
    es: 'El cliente no tiene una cuenta de Mercado Pago conectada: conectala.',
    en: 'The client has no Mercado Pago account connected: connect one.',
    pt: 'O cliente não tem uma conta do Mercado Pago conectada: conecte uma.',
  },
  account_unpinned: {
    action: 'pin_account',
    es: 'La cuenta del cliente fue liberada. La próxima conexión fija la nueva: conectá la correcta.',
    en: 'The account of the client was released. The next connection sets the new one: connect the right account.',
    pt: 'A conta do cliente foi liberada: a próxima conexão escolhe outra; conecte a correta.',
  },
  webhooks_missing: {
    action: 'check_webhook_address',
    es: 'No llegan webhooks de Mercado Pago[ desde hace {for}]. El servicio consulta los cobros igual. Revisá la dirección y la clave de los webhooks.',
    en: 'No webhooks arrive from Mercado Pago[ for {for}]. The service still reads the charges. Check the address and the secret of the webhooks.',
    pt: 'Não chegam avisos do Mercado Pago[ há {for}]; as cobranças continuam sendo consultadas: revise o endereço e a chave dos webhooks.',
  },
  payments_unreadable: {
    action: 'look_at_payments',
    es: 'Hay pagos de Mercado Pago que no se pueden leer ({count})[, desde hace {for}]. Miralos en el panel de Mercado Pago. Los cierres de esos días quedan sin verificar.',
    en: 'The service cannot read {count} payments of Mercado Pago[, for {for}]. Check them in Mercado Pago’s panel. The closings of those days stay unverified.',
    pt: 'Há pagamentos do Mercado Pago que não podem ser lidos ({count})[, há {for}]: veja-os no painel; os fechamentos desses dias ficam sem verificar.',
  },
  in_doubt: {
    action: 'settle_doubt',
    es: 'No se sabe si el cobro {reference} se hizo[, desde hace {for}]: mirá la terminal o el panel de Mercado Pago y registrá el resultado.',
    en: 'The result of the charge {reference} is unknown[ for {for}]: check the terminal or Mercado Pago’s panel, and record the result.',
    pt: 'Não se sabe se a cobrança {reference} foi feita[, há {for}]: pergunte ao Mercado Pago ou olhe o terminal e diga o que viu.',
  },
  contradicted: {
    action: 'look_at_order',
    es: 'El cobro {reference} figura distinto en Mercado Pago: comparalo con el registro.',
    en: 'Mercado Pago shows another result for the charge {reference} than the record: compare both.',
    pt: 'O Mercado Pago diz da cobrança {reference} algo que contradiz o registro: veja-a.',
  },
  paid_late: {
    action: 'look_at_order',
    es: 'El cobro {reference} se cerró sin pago y después se pagó[; en su lugar se cobró {instead}]: marcalo como pagado o devolvelo.',
    en: 'The charge {reference} was closed as not paid, and the customer paid later[; {instead} was charged instead]: mark it as paid or refund it.',
    pt: 'A cobrança {reference} foi dada como não paga e depois foi paga[; em seu lugar cobrou-se {instead}]: diga que vale ou devolva-a.',
  },
  paid_less: {
    action: 'look_at_order',
    es: 'El cliente pagó el cobro {reference} en parte: cobrá el resto y marcalo como pagado, o devolvelo.',
    en: 'The customer paid only a part of the charge {reference}: charge the difference and mark it as paid, or refund it.',
    pt: 'Da cobrança {reference} o cliente pagou menos que o pedido: receba o resto e diga que vale, ou devolva-a.',
  },
  settled_unpaid: {
    action: 'look_at_order',
    es: 'El cobro {reference} está marcado como pagado, y Mercado Pago muestra que no se pagó: cobralo de nuevo y marcalo como no pagado.',
    en: 'The charge {reference} is marked as paid, and Mercado Pago shows that it was not paid: charge it again and mark it as not paid.',
    pt: 'Alguém disse que a cobrança {reference} foi paga, e o Mercado Pago mostra que não: cobre-a de novo e diga que não foi paga.',
  },
  refund_in_doubt: {
    action: 'settle_doubt',
    es: 'No se sabe si se hizo una devolución del cobro {reference}: mirá el panel de Mercado Pago y registrá el resultado.',
    en: 'The result of a refund of the charge {reference} is unknown: check Mercado Pago’s panel, and record the result.',
    pt: 'Não se sabe se uma devolução da cobrança {reference} foi feita: veja no painel do Mercado Pago e diga o que viu.',
  },
  quiet: {
    action: null,
    es: 'El último cobro fue hace {for}. El próximo muestra si la caja puede cobrar.',
    en: 'The last charge was {for} ago. The next one shows whether the box can charge.',
    pt: 'A última cobrança foi há {for}; se agora pode cobrar, mostra-se com a próxima.',
  },
  never_charged: {
    action: null,
    es: 'La caja todavía no hizo ningún cobro. El primero muestra si puede cobrar.',
    en: 'The box has made no charge yet. The first one shows whether it can charge.',
    pt: 'Ainda não se viu nenhuma cobrança: a primeira mostra se o caixa pode cobrar.',
  },
  flow_paused: {
    action: 'resume_flow',
    es: 'El flujo está en pausa[ desde hace {for}]: reanudalo cuando corresponda.',
    en: 'The flow is paused[ for {for}]: resume it when it should run again.',
    pt: 'O fluxo está em pausa[ há {for}]: retome-o quando for a hora.',
  },
  flow_limited: {
    action: 'resume_flow',
    es: 'El flujo usó su límite de corridas: quitá el límite para que siga.',
    en: 'The flow has used up its run limit: lift it to go on.',
    pt: 'O fluxo usou seu limite de execuções: retire-o para continuar.',
  },
  question_open: {
    action: 'resume_flow',
    es: 'El flujo pregunta algo[ desde hace {for}] y lo que depende de eso espera: abrí el flujo y respondé.',
    en: 'The flow asks something[ for {for}] and what depends on it waits: open the flow and answer.',
    pt: 'O fluxo pergunta algo[ há {for}] e o que depende disso espera: abra o fluxo e responda.',
  },
  source_failing: {
    action: 'check_source',
    es: 'El origen del flujo no se puede leer[ desde hace {for}]: mirá el error y el origen.',
    en: 'The source of the flow cannot be read[ for {for}]: look at the error and the source.',
    pt: 'A origem do fluxo não pode ser lida[ há {for}]: veja o erro e a origem.',
  },
  not_polled: {
    action: 'check_service',
    es: 'El flujo está atrasado: no se leyó a su hora[, desde hace {for}]. Mirá el registro del servicio.',
    en: 'The poll of the flow is overdue[ for {for}]: read the log of the service.',
    pt: 'O fluxo deveria ter sido lido e não foi[ há {for}]: veja o registro do serviço.',
  },
  never_polled: {
    action: null,
    es: 'El flujo todavía no se leyó.',
    en: 'The flow has not been polled yet.',
    pt: 'O fluxo ainda não foi lido.',
  },
  access_lost: {
    action: 'authorize_again',
    es: 'El emisor del acceso ya no lo renueva[ ({code})][ desde hace {for}]. Autorizá la aplicación otra vez, poné el nuevo refresh token[ en {place}] y releé los archivos de flujos.',
    en: 'The issuer no longer renews the access[ ({code})][ for {for}]. Authorize the application again, put the new refresh token[ into {place}] and reload the flow files.',
    pt: 'Quem dá o acesso já não o renova[ ({code})][ há {for}]: autorize a aplicação de novo, ponha o novo refresh token[ em {place}] e faça reler os fluxos.',
  },
  sending_stopped: {
    action: 'start_sending',
    es: 'Un operador detuvo el envío al destino[ hace {for}]. Envíos pendientes: {pending}. Reanudá el envío cuando corresponda.',
    en: 'An operator stopped sending to the destination[ {for} ago]. Pending deliveries: {pending}. Start sending again when it is ready.',
    pt: 'Um operador parou o envio ao destino[ há {for}]. Envios pendentes: {pending}. Retome o envio quando for a hora.',
  },
  destination_failing: {
    action: 'check_destination',
    es: 'Destino con fallas: envío suspendido[ desde hace {for}]. Envíos pendientes: {pending}.[ Próximo intento en {nextTryIn}.] Revisá que responda.',
    en: 'The destination fails: sending is suspended[ for {for}]. Pending deliveries: {pending}.[ Next attempt in {nextTryIn}.] Check that it answers.',
    pt: 'Destino com falhas: envio suspenso[ há {for}]. Envios pendentes: {pending}.[ Próxima tentativa em {nextTryIn}.] Veja se responde.',
  },
  destination_asked_to_wait: {
    action: 'wait',
    es: 'El destino pidió esperar[ desde hace {for}]. Envíos pendientes: {pending}.',
    en: 'The destination asked to wait[ for {for}]. Pending deliveries: {pending}.',
    pt: 'O destino pediu para esperar[ há {for}]. Envios pendentes: {pending}.',
  },
  deliveries_late: {
    action: 'check_destination',
    es: 'Envíos atrasados al destino: {pending}, el más viejo desde hace {for}. Revisá que responda.',
    en: 'Deliveries to the destination are late: {pending}, the oldest for {for}. Check that it answers.',
    pt: 'Envios atrasados ao destino: {pending}, o mais antigo há {for}. Veja se responde.',
  },
  deliveries_failed: {
    action: 'check_destination',
    es: 'Envíos al destino que fallaron definitivamente: {count}. Mirá los errores y reintentalos.',
    en: '{count} deliveries to the destination failed permanently: read the errors and retry them.',
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

/** The action for a cause; none for a cause of a newer version. */
export function actionOf(cause: Cause | null): Action | null {
  return cause && Object.hasOwn(causes, cause) ? causes[cause].action : null
}
