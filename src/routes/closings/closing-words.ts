import type { LineKind } from '../../domain/closing.ts'
import type { Language } from '../../domain/language.ts'

/** The words of a closing's sheet and files. */
export type Words = Record<
  | 'title'
  | 'day'
  | 'span'
  | 'place'
  | 'state'
  | 'here'
  | 'there'
  | 'medium'
  | 'declared'
  | 'difference'
  | 'charges'
  | 'refunds'
  | 'net'
  | 'lines'
  | 'none'
  | 'reference'
  | 'signed'
  | 'signature'
  | 'amendment'
  | 'client'
  | 'store'
  | 'box'
  | 'at'
  | 'installments'
  | 'amount'
  | 'refunded'
  | 'thereAmount'
  | 'thereRefunded'
  | 'orderId'
  | 'paymentId'
  | 'signedBy'
  | 'administrator'
  | 'noReference',
  string
> & {
  states: Record<string, string>
  methods: Record<string, string>
  kinds: Record<LineKind, string>
}

export const closingWords: Record<Language, Words> = {
  es: {
    title: 'Cierre',
    day: 'Día',
    span: 'Período',
    place: 'Caja o sucursal',
    state: 'Estado',
    here: 'Acá',
    there: 'Mercado Pago',
    medium: 'Medio',
    declared: 'Contado',
    difference: 'Diferencia',
    charges: 'Cobros',
    refunds: 'Devoluciones',
    net: 'Neto',
    lines: 'Diferencias',
    none: 'Ninguna',
    reference: 'Referencia',
    signed: 'Firmado',
    signature: 'Firma y aclaración',
    amendment: 'Enmienda',
    client: 'Cliente',
    store: 'Sucursal',
    box: 'Caja',
    at: 'Fecha y hora',
    installments: 'Cuotas',
    amount: 'Importe',
    refunded: 'Devuelto',
    thereAmount: 'Mercado Pago: importe',
    thereRefunded: 'Mercado Pago: devuelto',
    orderId: 'Id del cobro',
    paymentId: 'Pago de Mercado Pago',
    signedBy: 'Firmado por',
    administrator: 'administrador',
    noReference: 'sin referencia',
    methods: {
      credit_card: 'crédito',
      debit_card: 'débito',
      prepaid_card: 'prepaga',
      voucher_card: 'vale',
      digital_wallet: 'billetera',
      bank_transfer: 'transferencia',
      account_money: 'dinero en cuenta',
      qr: 'QR',
      unknown: 'desconocido',
    },
    kinds: {
      missing_here: 'falta acá',
      missing_there: 'falta en Mercado Pago',
      amount_differs: 'otro importe',
      other_medium: 'otro medio',
      other_box: 'otra caja',
      paid_late: 'pago tardío',
      paid_less: 'pago de menos',
      pending: 'sin resultado',
    },
    states: {
      open: 'abierto',
      checking: 'en verificación',
      agreed: 'coincide',
      differs: 'con diferencias',
      unverified: 'sin verificar',
      signed: 'firmado',
    },
  },
  en: {
    title: 'Closing',
    day: 'Day',
    span: 'Time',
    place: 'Box or store',
    state: 'State',
    here: 'Here',
    there: 'Mercado Pago',
    medium: 'Medium',
    declared: 'Counted',
    difference: 'Difference',
    charges: 'Charges',
    refunds: 'Refunds',
    net: 'Net',
    lines: 'Differences',
    none: 'None',
    reference: 'Reference',
    signed: 'Signed',
    signature: 'Signature and name',
    amendment: 'Amendment',
    client: 'Client',
    store: 'Store',
    box: 'Box',
    at: 'Date and time',
    installments: 'Installments',
    amount: 'Amount',
    refunded: 'Refunded',
    thereAmount: 'Mercado Pago: amount',
    thereRefunded: 'Mercado Pago: refunded',
    orderId: 'Order id',
    paymentId: 'Payment of Mercado Pago',
    signedBy: 'Signed by',
    administrator: 'administrator',
    noReference: 'no reference',
    methods: {
      credit_card: 'credit card',
      debit_card: 'debit card',
      prepaid_card: 'prepaid card',
      voucher_card: 'voucher',
      digital_wallet: 'digital wallet',
      bank_transfer: 'bank transfer',
      account_money: 'account money',
      qr: 'QR',
      unknown: 'unknown',
    },
    kinds: {
      missing_here: 'missing here',
      missing_there: 'missing at Mercado Pago',
      amount_differs: 'other amount',
      other_medium: 'other method',
      other_box: 'other box',
      paid_late: 'paid late',
      paid_less: 'paid less',
      pending: 'no result yet',
    },
    states: {
      open: 'open',
      checking: 'being checked',
      agreed: 'agreed',
      differs: 'differs',
      unverified: 'not verified',
      signed: 'signed',
    },
  },
  pt: {
    title: 'Fechamento',
    day: 'Dia',
    span: 'Período',
    place: 'Caixa ou loja',
    state: 'Estado',
    here: 'Aqui',
    there: 'Mercado Pago',
    medium: 'Meio',
    declared: 'Contado',
    difference: 'Diferença',
    charges: 'Cobranças',
    refunds: 'Devoluções',
    net: 'Líquido',
    lines: 'Diferenças',
    none: 'Nenhuma',
    reference: 'Referência',
    signed: 'Assinado',
    signature: 'Assinatura e nome',
    amendment: 'Emenda',
    client: 'Cliente',
    store: 'Loja',
    box: 'Caixa',
    at: 'Data e hora',
    installments: 'Parcelas',
    amount: 'Valor',
    refunded: 'Devolvido',
    thereAmount: 'Mercado Pago: valor',
    thereRefunded: 'Mercado Pago: devolvido',
    orderId: 'Id da cobrança',
    paymentId: 'Pagamento do Mercado Pago',
    signedBy: 'Assinado por',
    administrator: 'administrador',
    noReference: 'sem referência',
    methods: {
      credit_card: 'crédito',
      debit_card: 'débito',
      prepaid_card: 'pré-pago',
      voucher_card: 'vale',
      digital_wallet: 'carteira digital',
      bank_transfer: 'transferência',
      account_money: 'saldo em conta',
      qr: 'QR',
      unknown: 'desconhecido',
    },
    kinds: {
      missing_here: 'falta aqui',
      missing_there: 'falta no Mercado Pago',
      amount_differs: 'outro valor',
      other_medium: 'outro meio',
      other_box: 'outra caixa',
      paid_late: 'pagamento tardio',
      paid_less: 'pago a menos',
      pending: 'sem resultado',
    },
    states: {
      open: 'aberto',
      checking: 'em verificação',
      agreed: 'confere',
      differs: 'com diferenças',
      unverified: 'não verificado',
      signed: 'assinado',
    },
  },
}

/** A means of payment in words; one that is not known as the provider names it. */
export function methodWord(method: string | null, { methods }: Words): string {
  return method === null ? '' : (methods[method] ?? method)
}
