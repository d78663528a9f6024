const es = {
  title: 'Terminales de prueba',
  situations: 'Situaciones',
  situationsLead: 'Provocá lo que puede salir mal y mirá qué hace tu caja.',
  inForce: 'En curso',
  noneInForce: 'Nada en curso: el sandbox contesta bien.',
  endAll: 'Terminar todo',
  begin: 'Provocar',
  done: 'llamadas: {count}',
  answers: 'La caja recibe',
  thenTill: 'Después',
  terminals: 'Terminales',
  lead: 'Acá sos el comprador: pagá, rechazá o cancelá en cada terminal.',
  other: 'English',
  live: 'En vivo',
  lost: 'Sin conexión con el sandbox',
  addTitle: 'Agregar una terminal',
  addFirst: 'Todavía no hay terminales',
  addHelp: 'Elegí la caja en la que va a estar. En una tienda real, eso se hace en la terminal.',
  addNone: 'Una terminal se vincula a una caja, y acá todavía no hay cajas:',
  step1: 'Conectá una cuenta: el servicio te trae a la página de autorización.',
  step2: 'Creá la sucursal y sus cajas desde el servicio (POST /stores).',
  step3: 'Volvé a esta página: va a mostrar las cajas para elegir una.',
  box: 'Caja',
  addButton: 'Vincular',
  history: 'Últimos cobros',
  foot: 'Sandbox local. No es Mercado Pago y no mueve dinero.',
  devices: 'Terminales',
  noBox: 'Sin caja',
  idle: 'Lista para cobrar',
  idleHelp: 'El próximo cobro de esta caja aparece acá',
  standalone: 'Modo independiente',
  standaloneHelp: 'No recibe cobros de la caja',
  created: 'Cobro en camino',
  createdHelp: 'La terminal todavía no lo mostró',
  at_terminal: 'Pagá acá',
  at_terminalHelp: 'Acercá o insertá la tarjeta, o escaneá el QR',
  cancellation_requested: 'La caja pidió cancelar',
  processed: 'Pago aprobado',
  partially_refunded: 'Devuelto en parte',
  refunded: 'Pago devuelto',
  canceled: 'Cobro cancelado',
  failed: 'Pago rechazado',
  expired: 'Cobro vencido',
  action_required: 'Mirá la terminal',
  action_requiredHelp: 'El resultado no llegó a Mercado Pago',
  left: 'Vence en {time}',
  reference: 'Ref. {text}',
  show: 'Mostrar en pantalla',
  credit_card: 'Crédito',
  debit_card: 'Débito',
  qr: 'QR',
  voucher_card: 'Vale',
  digital_wallet: 'Billetera',
  bank_transfer: 'Transferencia',
  prepaid_card: 'Prepaga',
  pay: 'Pagar con',
  reason: 'Motivo del rechazo',
  decline: 'Rechazar',
  cancel: 'Cancelar',
  hold: 'Dejar en duda',
  expire: 'Dejar vencer',
  rejected_by_issuer: 'Rechazada por el banco',
  insufficient_amount: 'Fondos insuficientes',
  card_disabled: 'Tarjeta deshabilitada',
  required_call_for_authorize: 'Llamar para autorizar',
  high_risk: 'Riesgo alto',
  bad_filled_card_data: 'Datos mal cargados',
  invalid_installments: 'Cuotas no válidas',
  max_attempts_exceeded: 'Demasiados intentos',
  processing_error: 'Error al procesar',
  canceled_on_terminal: 'En la terminal',
  canceled_by_api: 'Desde la caja',
}

const en = {
  title: 'Test terminals',
  situations: 'Situations',
  situationsLead: 'Provoke what can go wrong, and see what your till does.',
  inForce: 'In force',
  noneInForce: 'Nothing in force: the sandbox answers as it should.',
  endAll: 'End all',
  begin: 'Provoke',
  done: 'calls: {count}',
  answers: 'The till gets',
  thenTill: 'Then',
  terminals: 'Terminals',
  lead: 'Here you are the buyer: pay, decline or cancel on each terminal.',
  other: 'Español',
  live: 'Live',
  lost: 'No connection to the test provider',
  addTitle: 'Add a terminal',
  addFirst: 'No terminals yet',
  addHelp: 'Choose the box it stands at. In a real shop this is done on the device.',
  addNone: 'A terminal is paired with a box, and there are no boxes here yet:',
  step1: 'Connect an account: the service brings you to the authorization page.',
  step2: 'Create the store and its boxes in the service (POST /stores).',
  step3: 'Come back to this page: it will list the boxes to choose from.',
  box: 'Box',
  addButton: 'Pair',
  history: 'Latest charges',
  foot: 'Local test provider. It is not Mercado Pago and moves no money.',
  devices: 'Terminals',
  noBox: 'No box',
  idle: 'Ready',
  idleHelp: 'The next charge of this box appears here',
  standalone: 'Standalone mode',
  standaloneHelp: 'Takes no charges from the box',
  created: 'Charge on its way',
  createdHelp: 'The terminal has not shown it yet',
  at_terminal: 'Pay here',
  at_terminalHelp: 'Tap or insert the card, or scan the QR',
  cancellation_requested: 'The till asked to cancel',
  processed: 'Payment approved',
  partially_refunded: 'Partly refunded',
  refunded: 'Payment refunded',
  canceled: 'Charge canceled',
  failed: 'Payment declined',
  expired: 'Charge expired',
  action_required: 'Check the terminal',
  action_requiredHelp: 'The result did not reach the provider',
  left: 'Expires in {time}',
  reference: 'Ref. {text}',
  show: 'Show on screen',
  credit_card: 'Credit',
  debit_card: 'Debit',
  qr: 'QR',
  voucher_card: 'Voucher',
  digital_wallet: 'Wallet',
  bank_transfer: 'Transfer',
  prepaid_card: 'Prepaid',
  pay: 'Pay with',
  reason: 'Reason for declining',
  decline: 'Decline',
  cancel: 'Cancel',
  hold: 'Leave in doubt',
  expire: 'Let it expire',
  rejected_by_issuer: 'Declined by the bank',
  insufficient_amount: 'Insufficient funds',
  card_disabled: 'Card disabled',
  required_call_for_authorize: 'Call to authorize',
  high_risk: 'High risk',
  bad_filled_card_data: 'Wrong card data',
  invalid_installments: 'Invalid instalments',
  max_attempts_exceeded: 'Too many attempts',
  processing_error: 'Processing error',
  canceled_on_terminal: 'At the terminal',
  canceled_by_api: 'From the till',
}

const languages = { es, en }
const storeKey = 'sandbox-language'
let current = readLanguage()

function readLanguage() {
  try {
    const stored = localStorage.getItem(storeKey)
    if (stored !== null) return stored === 'en' ? 'en' : 'es'
  } catch {
    // A browser without storage is asked what its reader prefers.
  }
  return navigator.language.toLowerCase().startsWith('en') ? 'en' : 'es'
}

export function language() {
  return current
}

export function switchLanguage() {
  current = current === 'es' ? 'en' : 'es'
  try {
    localStorage.setItem(storeKey, current)
  } catch {
    // A browser without storage forgets the choice.
  }
}

/** The text for a key; an unknown key, such as a reason added later, is shown as it is. */
export function say(key, values = {}) {
  const text = languages[current][key] ?? key
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole)
}

export function money(amount) {
  const format = new Intl.NumberFormat(current === 'es' ? 'es-AR' : 'en', {
    style: 'currency',
    currency: 'ARS',
    currencyDisplay: 'narrowSymbol',
  })
  return format.format(Number(amount))
}

export function clockTime(stamp) {
  const format = new Intl.DateTimeFormat(current === 'es' ? 'es-AR' : 'en', {
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  })
  return format.format(new Date(stamp))
}

/** Fills every element that names its text. */
export function translatePage() {
  document.documentElement.lang = current
  document.title = say(document.body.dataset.title ?? 'title')
  for (const element of document.querySelectorAll('[data-text]')) {
    element.textContent = say(element.dataset.text)
  }
}
