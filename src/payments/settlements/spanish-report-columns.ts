/**
 * Spanish headers of the release report: only those that a public reader of it maps by name. Those of the settlement report are
 * missing here: its values are translated too (`Pago aprobado`), in words that no source lists.
 */
const names: Readonly<Record<string, string>> = {
  'FECHA DE LIQUIDACION': 'DATE',
  'ID DE OPERACION EN MERCADO PAGO': 'SOURCE_ID',
  'CODIGO DE REFERENCIA': 'EXTERNAL_REFERENCE',
  'TIPO DE REGISTRO': 'RECORD_TYPE',
  DESCRIPCION: 'DESCRIPTION',
  'MONTO NETO ACREDITADO': 'NET_CREDIT_AMOUNT',
  'MONTO NETO DEBITADO': 'NET_DEBIT_AMOUNT',
  'MONTO RECIBIDO POR COMPRAS POR SPLIT': 'SELLER_AMOUNT',
  'MONTO BRUTO DE LA OPERACION': 'GROSS_AMOUNT',
  'DATOS EXTRA': 'METADATA',
  'COMISION DE MERCADO PAGO': 'MP_FEE_AMOUNT',
  'COMISION POR OFRECER CUOTAS SIN INTERES': 'FINANCING_FEE_AMOUNT',
  'COSTO DE ENVIO': 'SHIPPING_FEE_AMOUNT',
  'IMPUESTOS COBRADOS POR RETENCIONES IIBB': 'TAXES_AMOUNT',
  'CUPON DE DESCUENTO': 'COUPON_AMOUNT',
  CUOTAS: 'INSTALLMENTS',
  'DETALLE DE IMPUESTOS': 'TAX_DETAIL',
  'IMPUESTO DESCONTADO DEL VALOR BRUTO': 'TAX_AMOUNT_TELCO',
  'DESGLOSE DE IMPUESTOS': 'TAXES_DISAGGREGATED',
  'COSTO POR OFRECER DESCUENTO': 'EFFECTIVE_COUPON_AMOUNT',
  SALDO: 'BALANCE_AMOUNT',
  'ID DE LA SOLICITUD': 'ORDER_MP',
  LIBERADO: 'IS_RELEASED',
}

/** The English name of a column; an unknown one stays as it is. */
export function englishColumn(header: string): string {
  const name = header.trim().toUpperCase()
  const plain = name.normalize('NFD').replace(/\p{M}/gu, '').replace(/\s+/g, ' ')
  return names[plain] ?? name
}
