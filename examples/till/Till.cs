// A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. C# 7, .NET Framework 4.7.2 or later, without packages.
// Run by a test with Mono 6.8 on Linux. Not run: .NET Framework on Windows, and .NET 8.
//
//   csc Till.cs -r:System.Net.Http.dll -r:System.Runtime.Serialization.dll -r:System.Xml.Linq.dll
//   set TILLBRIDGE_URL=http://127.0.0.1:3000   set TILLBRIDGE_KEY=mk_...   set TILLBRIDGE_BOX=CAJA-1
//   Till charge 0001-00004711 1234,50     charges the ticket; the same command again repeats what was sent
//   Till cancel 0001-00004711
//   Till refund 0001-00004711 [234,50]    without an amount: all that is left
//   Till resume                           at each start of the till: finishes what a crash left
//   Till close_day 2026-11-21 credit_card=182340,50 debit_card=90210,00
//
// Ends with 0: done. 1: refused, or not charged. 2: no answer yet, send it again.
using System;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using System.Xml;
using System.Xml.Linq;

/// <summary>An error that the same request does not mend; Answer has code, outcome, retry.</summary>
class Refused : Exception
{
    public readonly XElement Answer;
    public Refused(XElement answer) : base(Till.Text(answer, "code") + ": " + Till.Text(answer, "error")) { Answer = answer; }
}

/// <summary>Not known yet. Send the same request with the same key later.</summary>
class NoAnswer : Exception
{
    public NoAnswer() : base("no answer yet: send it again") { }
}

static class Till
{
    const int Tries = 10;
    static readonly string Url = Environment.GetEnvironmentVariable("TILLBRIDGE_URL") ?? "http://127.0.0.1:3000";
    static readonly string Box = Environment.GetEnvironmentVariable("TILLBRIDGE_BOX") ?? "CAJA-1";
    static readonly string Folder = Environment.GetEnvironmentVariable("TILL_FILE") ?? "till-data";
    static readonly HttpClient Http = new HttpClient { Timeout = TimeSpan.FromSeconds(40) };

    // The till's memory: one small file a value. It survives a crash and a power cut; an ERP uses its own database.
    static string FileOf(string ticket, string name) { return Path.Combine(Folder, Uri.EscapeDataString(ticket), name); }

    static string Read(string ticket, string name)
    {
        var file = FileOf(ticket, name);
        return File.Exists(file) ? File.ReadAllText(file) : null;
    }

    static void Keep(string ticket, string name, string value)
    {
        var file = FileOf(ticket, name);
        Directory.CreateDirectory(Path.GetDirectoryName(file));
        var bytes = Encoding.UTF8.GetBytes(value ?? "");
        using (var stream = new FileStream(file + ".new", FileMode.Create))
        {
            stream.Write(bytes, 0, bytes.Length);
            stream.Flush(true);
        }
        if (value == null) File.Delete(file);
        else if (File.Exists(file)) File.Replace(file + ".new", file, null);
        else File.Move(file + ".new", file);
    }

    // JSON as XML, which every .NET has: an object's fields are elements.
    internal static string Text(XElement answer, string name) { return answer.Element(name) == null ? null : answer.Element(name).Value; }

    static string Json(params XElement[] fields)
    {
        var stream = new MemoryStream();
        using (var writer = JsonReaderWriterFactory.CreateJsonWriter(stream, Encoding.UTF8, false))
            new XElement("root", new XAttribute("type", "object"), fields).WriteTo(writer);
        return Encoding.UTF8.GetString(stream.ToArray());
    }

    static XElement ReadJson(byte[] bytes)
    {
        using (var reader = JsonReaderWriterFactory.CreateJsonReader(bytes, XmlDictionaryReaderQuotas.Max)) return XElement.Load(reader);
    }

    /// <summary>One request. Null: no answer came, or none that can be read.</summary>
    static XElement Request(string method, string path, string body, string key, out int status, out TimeSpan after)
    {
        status = 0;
        after = TimeSpan.FromSeconds(1);
        var request = new HttpRequestMessage(new HttpMethod(method), Url + path);
        request.Headers.Add("x-api-token", Environment.GetEnvironmentVariable("TILLBRIDGE_KEY"));
        request.Headers.Add("accept-language", "es");
        if (key != null) request.Headers.Add("idempotency-key", key);
        if (body != null) request.Content = new StringContent(body, Encoding.UTF8, "application/json");
        try
        {
            using (var answer = Http.SendAsync(request).GetAwaiter().GetResult())
            {
                status = (int)answer.StatusCode;
                if (answer.Headers.RetryAfter != null && answer.Headers.RetryAfter.Delta != null) after = answer.Headers.RetryAfter.Delta.Value;
                return ReadJson(answer.Content.ReadAsByteArrayAsync().GetAwaiter().GetResult());
            }
        }
        catch (Exception error) when (error is HttpRequestException || error is TaskCanceledException || error is IOException
            || error is WebException || error is XmlException || error is FormatException)
        {
            return null;
        }
    }

    /// <summary>Repeats the same request with the same key after a lost answer and after `retry: same_request`.</summary>
    static XElement SendUntilAnswered(string method, string path, string body = null, string key = null)
    {
        for (var tries = 0; tries < Tries; tries++)
        {
            int status;
            TimeSpan after;
            var answer = Request(method, path, body, key, out status, out after);
            if (answer != null && status < 400) return answer;
            if (answer != null)
            {
                // Errors of requests that move no money have no `retry`: their status decides.
                var passes = new[] { 408, 429, 503, 504 }.Contains(status);
                if ((Text(answer, "retry") ?? (passes ? "same_request" : "after_change")) != "same_request") throw new Refused(answer);
            }
            Thread.Sleep(after);
        }
        throw new NoAnswer();
    }

    static void ShowCashier(XElement answer)
    {
        var cashier = answer.Element("cashier");
        Console.WriteLine(cashier == null ? Text(answer, "error") : Text(cashier, "message"));
    }

    static XElement Charge(string ticket, string amount)
    {
        var body = Json(new XElement("caja_id", Box), new XElement("external_reference", ticket), new XElement("amount", amount));
        var before = Read(ticket, "body");
        var failed = Read(ticket, "outcome") == "not_charged"
            && (Read(ticket, "order_id") == null ? before != body : Read(ticket, "retry_safe") == "true");
        if (before != null && before != body && !failed)
            throw new InvalidOperationException("This ticket was sent with other content. Finish that charge first.");
        if (before == null || failed)
        {
            // Stored before it is sent: whatever happens from here on, the same key is sent again. The body comes last.
            Keep(ticket, "body", null);
            Keep(ticket, "key", Guid.NewGuid().ToString());
            Keep(ticket, "order_id", null);
            Keep(ticket, "outcome", "unknown");
            Keep(ticket, "body", body);
        }
        SendCharge(ticket);
        return WaitForEnd(ticket);
    }

    static void SendCharge(string ticket)
    {
        if (Read(ticket, "retry") == "no" && Read(ticket, "outcome") == "unknown")
            throw new InvalidOperationException("Look for the order before you charge again.");
        XElement answer;
        try
        {
            answer = SendUntilAnswered("POST", "/orders", Read(ticket, "body"), Read(ticket, "key"));
        }
        catch (Refused refused)
        {
            answer = refused.Answer;
            Keep(ticket, "outcome", Text(answer, "outcome"));
            Keep(ticket, "retry", Text(answer, "retry"));
            // ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
            if (Text(answer, "outcome") != "charged" || Text(answer, "order_id") == null) throw;
        }
        Keep(ticket, "order_id", Text(answer, "order_id"));
        Keep(ticket, "outcome", Text(answer, "outcome"));
        Keep(ticket, "retry", null);
    }

    static XElement WaitForEnd(string ticket)
    {
        var path = "/orders/" + Read(ticket, "order_id");
        var order = SendUntilAnswered("GET", path);
        ShowCashier(order);
        while (Text(order, "outcome") == "unknown" && string.IsNullOrEmpty(Text(order, "needs_decision"))
            && string.IsNullOrEmpty(Text(order, "settled")))
        {
            Thread.Sleep(200);
            order = SendUntilAnswered("GET", path + "?wait=30&version=" + Text(order, "version"));
            ShowCashier(order);
        }
        Keep(ticket, "retry_safe", Text(order, "retry_safe"));
        Keep(ticket, "outcome", Text(order, "outcome"));
        return order;
    }

    static XElement Cancel(string ticket)
    {
        if (Read(ticket, "order_id") == null) SendCharge(ticket);
        try
        {
            SendUntilAnswered("POST", "/orders/cancel", Json(new XElement("order_id", Read(ticket, "order_id"))));
        }
        catch (Refused refused)
        {
            // ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
            ShowCashier(refused.Answer);
        }
        return WaitForEnd(ticket);
    }

    static XElement Refund(string ticket, string amount)
    {
        // A refund that got no answer is repeated before any other.
        if (Read(ticket, "refund") == null)
        {
            var order = new XElement("order_id", Read(ticket, "order_id"));
            Keep(ticket, "refund_key", Guid.NewGuid().ToString());
            Keep(ticket, "refund", amount == null ? Json(order) : Json(order, new XElement("amount", amount)));
        }
        else Console.WriteLine("The refund of before is sent again, and no other");
        try
        {
            SendUntilAnswered("POST", "/orders/refund", Read(ticket, "refund"), Read(ticket, "refund_key"));
        }
        catch (Refused refused)
        {
            if (Text(refused.Answer, "outcome") != "unknown") Keep(ticket, "refund", null);
            throw;
        }
        Keep(ticket, "refund", null);
        return WaitForEnd(ticket);
    }

    static XElement Resume()
    {
        foreach (var ticket in Directory.GetDirectories(Folder).Select(Path.GetFileName).Select(Uri.UnescapeDataString))
        {
            if (Read(ticket, "refund") != null) Refund(ticket, null);
            else if (Read(ticket, "body") != null && Read(ticket, "outcome") == "unknown")
            {
                SendCharge(ticket);
                WaitForEnd(ticket);
            }
        }
        return null;
    }

    static XElement CloseDay(string day, string[] counted)
    {
        var declared = new XElement("declared", new XAttribute("type", "object"),
            counted.Select(one => new XElement(one.Split('=')[0], one.Split('=')[1])));
        var closing = SendUntilAnswered("POST", "/closings", Json(new XElement("caja_id", Box), new XElement("business_day", day), declared));
        while (Text(closing, "state") == "open" || Text(closing, "state") == "checking")
        {
            Thread.Sleep(2000);
            closing = SendUntilAnswered("GET", "/closings/" + Text(closing, "id"));
        }
        foreach (var line in closing.Element("lines").Elements()) Console.WriteLine(Text(line, "kind") + " " + Text(line, "message"));
        Console.WriteLine("closing " + Text(closing, "number") + ": " + Text(closing, "state"));
        return null;
    }

    static XElement Step(string[] words)
    {
        switch (words[0])
        {
            case "charge": return Charge(words[1], words[2]);
            case "cancel": return Cancel(words[1]);
            case "refund": return Refund(words[1], words.ElementAtOrDefault(2));
            case "resume": return Resume();
            case "close_day": return CloseDay(words[1], words.Skip(2).ToArray());
            default: throw new InvalidOperationException("a step is one of charge, cancel, refund, resume, close_day");
        }
    }

    static int Main(string[] words)
    {
        ServicePointManager.SecurityProtocol = SecurityProtocolType.Tls12;
        Console.OutputEncoding = new UTF8Encoding(false);
        try
        {
            var order = Step(words);
            if (order != null) Console.WriteLine(Text(order, "external_reference") + ": " + Text(order, "outcome"));
            return words[0] == "charge" && Text(order, "outcome") != "charged" ? 1 : 0;
        }
        catch (Refused refused)
        {
            ShowCashier(refused.Answer);
            Console.Error.WriteLine(refused.Message);
            return 1;
        }
        catch (NoAnswer nothing)
        {
            Console.Error.WriteLine(nothing.Message);
            return 2;
        }
    }
}
