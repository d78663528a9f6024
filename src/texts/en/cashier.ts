/** What a cashier reads about an order, and about a terminal that has another one. */
export const cashier = {
  'cashier.unknown':
    'The charge is being checked. Do not charge again: wait or repeat the same request.',
  'cashier.refund_under_way':
    'The refund is under way. Do not repeat it or charge again: wait until it ends.',
  'cashier.contradicted':
    'The provider reports something that does not fit this charge. Do not charge again; tell the supervisor.',
  'cashier.created':
    'The charge is waiting for the terminal. If it does not show up, press refresh on it.',
  'cashier.silent':
    'The terminal has not answered for {for}. See whether it is on and online; if not, cancel and charge at another box.',
  'cashier.at_terminal':
    'The charge is on the terminal. Ask the customer to pay; to cancel, ask for it at the till or do it on the terminal.',
  'cashier.cancel_requested':
    'The cancel is requested, but the terminal may still take the money. Do not charge again: wait for the result.',
  'cashier.action_required':
    'The terminal did not confirm the result. Look at its screen before you charge again.',
  'cashier.processed': 'Charge approved.',
  'cashier.partially_refunded': 'Charge approved, with a partial refund.',
  'cashier.refunded': 'The charge was refunded in full.',
  'cashier.canceled': 'The charge was canceled. Nothing was charged.',
  'cashier.expired': 'The charge expired unpaid. Nothing was charged.',
  'cashier.not_created': 'The charge was never created. Nothing was charged; you may charge again.',
  'cashier.paid_after_close':
    'This charge was closed, but was paid afterwards. Do not charge again; tell the supervisor.',
  'cashier.paid_late':
    'This charge counted as not paid, but was paid afterwards. Do not charge again; tell the supervisor.',
  'cashier.paid_twice':
    'The provider shows more than one payment of this charge. Do not charge again; tell the supervisor.',
  'cashier.paid_less':
    'The customer paid less than was asked: {paid} of {asked}. Do not charge all of it again; tell the supervisor.',
  'cashier.settled_unpaid':
    'This charge is marked as paid, and Mercado Pago shows that it was not paid. Call the supervisor before you hand out anything.',
  'cashier.settled_paid':
    'A supervisor has decided that this was paid. Hand out the goods and their receipt.',
  'cashier.settled_not_paid':
    'A supervisor has decided that this was not paid. You may charge it again.',
  'cashier.declined': 'Payment declined. Ask for another means of payment.',
  'cashier.declined_funds':
    'Payment declined: not enough funds or limit. Ask for another means of payment.',
  'cashier.declined_card':
    'Payment declined: the card cannot be used or its data do not match. Ask for another card.',
  'cashier.declined_call_issuer':
    'Payment declined: the customer must authorise it with the bank. Then you may charge again.',
  'cashier.declined_attempts': 'Payment declined: too many attempts. Ask for another card.',
  'cashier.paid_before': 'This sale is paid already. Do not charge again: give the receipt.',

  'busy.own': 'The terminal has another charge. Finish or cancel it, then charge again.',
  'busy.other_application':
    'The terminal is busy with a charge of another program. Finish or cancel it in that program or on the terminal, then charge again.',
  'busy.print':
    'The terminal is busy: it has a pending print, or a charge of another program. Wait until it ends or look at its screen, then charge again.',
  'busy.unknown':
    'The terminal is busy with an operation of another program. Look at its screen, finish it there, then charge again.',
} as const
