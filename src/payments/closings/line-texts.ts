import type { ClosingLine, LineKind } from '../../domain/closing.ts'
import { fillSentence } from '../../domain/fill-sentence.ts'
import type { Language } from '../../domain/language.ts'

/** What a person should do about a line; a till may show its own text for each. */
export const lineActions = [
  'adopt_or_refund',
  'call_supervisor',
  'compare_receipts',
  'correct_medium',
  'correct_box',
  'wait',
  'none',
] as const
type LineAction = (typeof lineActions)[number]

const texts: Record<LineKind, { action: LineAction } & Record<Language, string>> = {
  missing_here: {
    action: 'adopt_or_refund',
    es: 'Mercado Pago tiene este cobro y acá no figura. Buscá la venta: registrala o devolvé el dinero.',
    en: 'Mercado Pago has this charge and it is not recorded here. Look for the sale: record it or refund the payment.',
    pt: 'O provedor cobrou isto e aqui não consta como cobrado. Procure a venda: assuma-a ou devolva o dinheiro.',
  },
  missing_there: {
    action: 'call_supervisor',
    es: 'Acá figura como cobrado y Mercado Pago no lo tiene. No entregues más mercadería por esta venta; avisá al supervisor.',
    en: 'It is charged here and Mercado Pago does not have it. Hand out nothing more for this sale; call the supervisor.',
    pt: 'Aqui consta como cobrado e o provedor não o tem. Não entregue mais nada por esta venda; avise o supervisor.',
  },
  amount_differs: {
    action: 'compare_receipts',
    es: 'El importe cobrado o devuelto no es el mismo en los dos lados. Comparalo con el comprobante de la terminal.',
    en: 'The charged or refunded amount differs between both sides. Compare it with the receipt of the terminal.',
    pt: 'O valor cobrado ou devolvido não é o mesmo nos dois lados. Compare com o comprovante da maquininha.',
  },
  other_medium: {
    action: 'correct_medium',
    es: 'El medio de pago no es el mismo en los dos lados. Corregí el medio de la venta en el sistema.',
    en: 'The means of payment is not the same on both sides. Correct it in the system.',
    pt: 'O meio de pagamento não é o mesmo nos dois lados. Corrija-o no sistema.',
  },
  other_box: {
    action: 'correct_box',
    es: 'Se cobró en la terminal de otra caja. Contalo en la caja de la venta.',
    en: 'It was charged on the terminal of another box. Count it at the box of the sale.',
    pt: 'Foi cobrado na maquininha de outro caixa. Conte-o no caixa da venda.',
  },
  paid_late: {
    action: 'call_supervisor',
    es: 'Esta venta figuraba como no pagada y después se pagó. Fijate si se cobró de nuevo: marcala como pagada o devolvé el dinero.',
    en: 'This sale was closed as not paid, and the customer paid later. Check whether it was charged again: mark it as paid or refund it.',
    pt: 'Esta venda foi dada como não paga e depois foi paga. Veja se foi cobrada de novo: diga que foi paga ou devolva o dinheiro.',
  },
  paid_less: {
    action: 'call_supervisor',
    es: 'El cliente pagó solo una parte. Cobrá el resto con otro medio y marcala como pagada, o devolvé el dinero.',
    en: 'The customer paid only a part. Charge the difference by other means and mark it as paid, or refund it.',
    pt: 'O cliente pagou menos que o pedido. Receba o resto de outra forma e diga que foi paga, ou devolva o dinheiro.',
  },
  pending: {
    action: 'wait',
    es: 'Todavía no se conoce el resultado. No vuelvas a cobrar: esperá, el cierre se repite solo.',
    en: 'The result is not known yet. Do not charge again: wait, the service repeats the closing.',
    pt: 'Ainda não se sabe como termina. Não cobre de novo: espere, o fechamento se repete sozinho.',
  },
  dismissed: {
    action: 'none',
    es: 'Este pago no necesita una venta[, según {who}]: {reason}. No cuenta como diferencia.',
    en: 'This payment needs no sale[, says {who}]: {reason}. It does not count as a difference.',
    pt: 'Este pagamento não precisa de uma venda[, segundo {who}]: {reason}. Não conta como diferença.',
  },
}

const administrators: Record<Language, string> = {
  es: 'el administrador',
  en: 'the administrator',
  pt: 'o administrador',
}

/** The sentence of a line, and what to do. */
export function adviseOnLine(
  { kind, dismissed }: Pick<ClosingLine, 'kind' | 'dismissed'>,
  language: Language,
): { message: string; action: LineAction } {
  const text = texts[kind]
  const by = dismissed?.by
  const who = by?.kind === 'administrator' ? administrators[language] : (by?.name ?? undefined)
  const reason = dismissed?.reason.trim().replace(/\.$/, '')
  return { message: fillSentence(text[language], { who, reason }), action: text.action }
}
