// Stores the events of tillbridge, a file each. C# 7, .NET Framework 4.7.2 or later, without packages.
// Run by a test with Mono 6.8 on Linux. Not run: .NET Framework on Windows, and .NET 8.
//
//   csc EventConsumer.cs -r:System.Net.Http.dll -r:System.Runtime.Serialization.dll -r:System.Xml.Linq.dll
//   set TILLBRIDGE_URL=http://127.0.0.1:3000   set TILLBRIDGE_KEY=mk_...
//   EventConsumer events
//
// A crash loses no event and stores none twice: an event is committed after it is stored, and stored once by its id.
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

static class EventConsumer
{
    static readonly string Url = Environment.GetEnvironmentVariable("TILLBRIDGE_URL");
    static readonly string Reader = "reader=" + Uri.EscapeDataString(Environment.MachineName);
    static readonly HttpClient Http = new HttpClient { Timeout = TimeSpan.FromSeconds(60) };

    /// <summary>The answer, as XML: an object's fields are elements. It waits while there is none, or another reader is at work.</summary>
    static XElement Call(string method, string path, string body = null)
    {
        for (; ; Thread.Sleep(2000))
        {
            var request = new HttpRequestMessage(new HttpMethod(method), Url + path);
            request.Headers.Add("x-api-token", Environment.GetEnvironmentVariable("TILLBRIDGE_KEY"));
            if (body != null) request.Content = new StringContent(body, Encoding.UTF8, "application/json");
            try
            {
                using (var answer = Http.SendAsync(request).GetAwaiter().GetResult())
                {
                    var bytes = answer.Content.ReadAsByteArrayAsync().GetAwaiter().GetResult();
                    if (answer.IsSuccessStatusCode)
                        using (var json = JsonReaderWriterFactory.CreateJsonReader(bytes, XmlDictionaryReaderQuotas.Max)) return XElement.Load(json);
                    // 409 with retry-after: another reader is at work.
                    var wait = answer.Headers.RetryAfter;
                    if ((int)answer.StatusCode < 500 && wait == null) throw new InvalidOperationException(Encoding.UTF8.GetString(bytes));
                    if (wait != null && wait.Delta != null) Thread.Sleep(wait.Delta.Value);
                }
            }
            catch (Exception error) when (error is HttpRequestException || error is TaskCanceledException || error is IOException || error is WebException)
            {
                // The service cannot be reached.
            }
        }
    }

    /// <summary>Put your own rows here, in one transaction with the id of the event.</summary>
    static void Store(string folder, XElement happened)
    {
        var file = Path.Combine(folder, happened.Element("id").Value + ".json");
        if (File.Exists(file)) return;
        // The writer takes a null only without its empty text.
        foreach (var empty in happened.Descendants().Where(one => (string)one.Attribute("type") == "null").ToList()) empty.RemoveNodes();
        using (var stream = new FileStream(file + ".new", FileMode.Create))
        {
            using (var json = JsonReaderWriterFactory.CreateJsonWriter(stream, Encoding.UTF8, false))
                new XElement("root", happened.Attributes(), happened.Nodes()).WriteTo(json);
            stream.Flush(true);
        }
        File.Move(file + ".new", file);
    }

    static void Main(string[] words)
    {
        ServicePointManager.SecurityProtocol = SecurityProtocolType.Tls12;
        Directory.CreateDirectory(words[0]);
        Call("POST", "/events/feed/consumers", "{\"name\":\"erp\",\"from\":\"beginning\"}");
        while (true)
        {
            var page = Call("GET", "/events/feed?wait=30&consumer=erp&" + Reader);
            foreach (var happened in page.Element("events").Elements()) Store(words[0], happened);
            if (page.Element("events").HasElements)
                Call("POST", "/events/feed/consumers/erp?" + Reader, "{\"after\":\"" + page.Element("next").Value + "\"}");
        }
    }
}
