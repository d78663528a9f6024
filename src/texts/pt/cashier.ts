/** What a cashier reads about an order, and about a terminal that has another one. */
export const cashier = {
  'cashier.unknown':
    'A cobrança está sendo verificada. Não cobre de novo: espere ou repita a mesma operação.',
  'cashier.refund_under_way':
    'A devolução está em andamento. Não a repita nem cobre de novo: espere terminar.',
  'cashier.contradicted':
    'O provedor informa algo que não confere com esta cobrança. Não cobre de novo; avise o supervisor.',
  'cashier.created': 'A cobrança espera na maquininha. Se não aparecer, atualize a tela dela.',
  'cashier.silent':
    'A maquininha não responde há {for}. Veja se está ligada e com conexão; se não, cancele e cobre em outro caixa.',
  'cashier.at_terminal':
    'A cobrança está na maquininha. Peça ao cliente que pague; para cancelar, peça pelo caixa ou faça na maquininha.',
  'cashier.cancel_requested':
    'O cancelamento foi pedido, mas a maquininha ainda pode cobrar. Não cobre de novo: espere o resultado.',
  'cashier.action_required':
    'A maquininha não confirmou o resultado. Olhe a tela antes de cobrar de novo.',
  'cashier.processed': 'Cobrança aprovada.',
  'cashier.partially_refunded': 'Cobrança aprovada, com devolução parcial.',
  'cashier.refunded': 'A cobrança foi devolvida por completo.',
  'cashier.canceled': 'A cobrança foi cancelada. Nada foi cobrado.',
  'cashier.expired': 'A cobrança venceu sem pagamento. Nada foi cobrado.',
  'cashier.not_created':
    'A cobrança não chegou a ser criada. Nada foi cobrado; pode cobrar de novo.',
  'cashier.paid_after_close':
    'Esta cobrança foi encerrada, mas o pagamento chegou depois. Não cobre de novo; avise o supervisor.',
  'cashier.paid_late':
    'Esta cobrança foi dada como não paga, mas o pagamento chegou depois. Não cobre de novo; avise o supervisor.',
  'cashier.paid_twice':
    'O Mercado Pago mostra mais de um pagamento desta cobrança. Não cobre de novo; avise o supervisor.',
  'cashier.paid_less':
    'O cliente pagou menos que o pedido: {paid} de {asked}. Não cobre tudo de novo; avise o supervisor.',
  'cashier.settled_unpaid':
    'Alguém disse que esta cobrança foi paga, e o Mercado Pago mostra que não. Avise o supervisor antes de entregar algo.',
  'cashier.settled_paid':
    'Um supervisor marcou esta cobrança como paga. Entregue a mercadoria e o comprovante.',
  'cashier.settled_not_paid':
    'Um supervisor marcou esta cobrança como não paga. Você pode cobrar de novo.',
  'cashier.declined': 'Pagamento recusado. Peça outro meio de pagamento.',
  'cashier.declined_funds':
    'Pagamento recusado: saldo ou limite insuficiente. Peça outro meio de pagamento.',
  'cashier.declined_card':
    'Pagamento recusado: o cartão não pode ser usado ou os dados não conferem. Peça outro cartão.',
  'cashier.declined_call_issuer':
    'Pagamento recusado: o cliente deve autorizar com o banco. Depois pode cobrar de novo.',
  'cashier.declined_attempts': 'Pagamento recusado: tentativas demais. Peça outro cartão.',
  'cashier.paid_before': 'Esta venda já está paga. Não cobre de novo: entregue o comprovante.',

  'busy.own': 'A maquininha tem outra cobrança. Termine ou cancele e cobre de novo.',
  'busy.other_application':
    'A maquininha está ocupada por uma cobrança de outro programa. Termine ou cancele nesse programa ou na maquininha, e cobre de novo.',
  'busy.print':
    'A maquininha está ocupada: tem uma impressão pendente ou uma cobrança de outro programa. Espere terminar ou olhe a tela, e cobre de novo.',
  'busy.unknown':
    'A maquininha está ocupada por algo que não saiu deste caixa. Olhe a tela, termine ali e cobre de novo.',
} as const
