/**
 * Why a box, a connection, a flow or a destination is in trouble. `{for}` is how long the state has lasted, such as "3 minutes";
 * `{nextTryIn}` is the time until the next try. Times of day are avoided, since shops have different time zones.
 */
export const fleet = {
  'fleet.terminal_standalone':
    'O terminal[ {terminalId}] está em modo independente[, há {for}][ (cobranças recusadas: {count})]: passe-o para o modo PDV.',
  'fleet.terminal_missing':
    'O caixa não tem nenhum terminal vinculado[, há {for}][ (cobranças recusadas: {count})]: vincule um no app do Mercado Pago.',
  'fleet.terminal_silent':
    'O terminal[ {terminalId}] não responde[ há {for}]: tente em outro caixa e veja se está ligado e com conexão.',
  'fleet.terminal_busy':
    'O terminal[ {terminalId}] está ocupado por outra cobrança[ ({reference})][ há {for}]: termine-a, ou cancele-a pelo caixa ou no terminal.',
  'fleet.terminal_waits':
    'O terminal[ {terminalId}] não confirmou o resultado da cobrança {reference}[, há {for}]: veja a tela dele.',
  'fleet.refused':
    'O Mercado Pago recusa as cobranças do caixa[, {count} seguidas][, há {for}]: veja o motivo no registro.',
  'fleet.provider_failing':
    'O Mercado Pago falha[ há {for}]. O problema não é da loja: cobre de outra forma e veja a página de estado do Mercado Pago.',
  'fleet.throttled': 'O Mercado Pago limita as chamadas[ há {for}]: tenta-se de novo mais devagar.',
  'fleet.service_failing':
    'O serviço não pôde atender a última cobrança[, há {for}]: veja seu estado e seu registro.',
  'fleet.connection_lost':
    'A conexão com o Mercado Pago foi perdida[ há {for}]: conecte a conta de novo.',
  'fleet.connection_expiring':
    'A conexão com o Mercado Pago está para vencer e não pôde ser renovada[ há {for}]: conecte a conta de novo antes que se perca.',
  'fleet.not_connected': 'O cliente não tem uma conta do Mercado Pago conectada: conecte uma.',
  'fleet.account_unpinned':
    'A conta do cliente foi liberada: a próxima conexão escolhe outra; conecte a correta.',
  'fleet.webhooks_missing':
    'Não chegam avisos do Mercado Pago[ há {for}]; as cobranças continuam sendo consultadas: revise o endereço e a chave dos webhooks.',
  'fleet.payments_unreadable':
    'Há pagamentos do Mercado Pago que não podem ser lidos ({count})[, há {for}]: veja-os no painel; os fechamentos desses dias ficam sem verificar.',
  'fleet.endpoint_stopped':
    'Endpoints de eventos parados: {count}[, há {for}]. Os eventos esperam 30 dias: conserte o receptor e retome o endpoint.',
  'fleet.endpoint_failing':
    'Endpoints que não aceitam um evento: {count}[, há {for}]. Veja a última resposta no painel, em Eventos.',
  'fleet.in_doubt':
    'Não se sabe se a cobrança {reference} foi feita[, há {for}]: pergunte ao Mercado Pago ou olhe o terminal e diga o que viu.',
  'fleet.contradicted':
    'O Mercado Pago diz da cobrança {reference} algo que contradiz o registro: veja-a.',
  'fleet.paid_late':
    'A cobrança {reference} foi dada como não paga e depois foi paga[; em seu lugar cobrou-se {instead}]: diga que vale ou devolva-a.',
  'fleet.paid_less':
    'Da cobrança {reference} o cliente pagou menos que o pedido: receba o resto e diga que vale, ou devolva-a.',
  'fleet.settled_unpaid':
    'Alguém disse que a cobrança {reference} foi paga, e o Mercado Pago mostra que não: cobre-a de novo e diga que não foi paga.',
  'fleet.refund_in_doubt':
    'Não se sabe se uma devolução da cobrança {reference} foi feita: veja no painel do Mercado Pago e diga o que viu.',
  'fleet.quiet': 'A última cobrança foi há {for}; se agora pode cobrar, mostra-se com a próxima.',
  'fleet.never_charged':
    'Ainda não se viu nenhuma cobrança: a primeira mostra se o caixa pode cobrar.',
  'fleet.flow_paused': 'O fluxo está em pausa[ há {for}]: retome-o quando for a hora.',
  'fleet.flow_limited': 'O fluxo usou seu limite de execuções: retire-o para continuar.',
  'fleet.question_open':
    'O fluxo pergunta algo[ há {for}] e o que depende disso espera: abra o fluxo e responda.',
  'fleet.source_failing': 'A origem do fluxo não pode ser lida[ há {for}]: veja o erro e a origem.',
  'fleet.not_polled':
    'O fluxo deveria ter sido lido e não foi[ há {for}]: veja o registro do serviço.',
  'fleet.never_polled': 'O fluxo ainda não foi lido.',
  'fleet.access_lost':
    'Quem dá o acesso já não o renova[ ({code})][ há {for}]: autorize a aplicação de novo, ponha o novo refresh token[ em {place}] e faça reler os fluxos.',
  'fleet.sending_stopped':
    'Um operador parou o envio ao destino[ há {for}]. Envios pendentes: {pending}. Retome o envio quando for a hora.',
  'fleet.destination_failing':
    'Destino com falhas: envio suspenso[ há {for}]. Envios pendentes: {pending}.[ Próxima tentativa em {nextTryIn}.] Veja se responde.',
  'fleet.destination_asked_to_wait':
    'O destino pediu para esperar[ há {for}]. Envios pendentes: {pending}.',
  'fleet.deliveries_late':
    'Envios atrasados ao destino: {pending}, o mais antigo há {for}. Veja se responde.',
  'fleet.deliveries_failed':
    'O destino recusou {count} em definitivo: veja os erros e tente de novo.',
} as const
